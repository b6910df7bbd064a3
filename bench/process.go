package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopMax bounds the wait for a server that was asked to end.
const stopMax = 10 * time.Second

// process is a server that this program started.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
	err   error
}

// start runs a server whose output goes to a file beside its data.
func start(folder, name, binary string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(binary, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Ctrl-C is for us, who end it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends the process, by force when it does not end as asked.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
	select {
	case <-p.ended:
	case <-time.After(stopMax):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	_ = p.log.Close()
}

// until tries f again until it succeeds, the process ends, or ctx does.
func (p *process) until(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended (%w); see %s", p.cmd.Path, p.err, p.log.Name())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freeAddress is an address on the loopback that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// freeAddresses fills in as many.
func freeAddresses(to ...*string) error {
	for _, a := range to {
		var err error
		if *a, err = freeAddress(); err != nil {
			return err
		}
	}
	return nil
}
