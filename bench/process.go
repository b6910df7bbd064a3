package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/pawlproject/pawl/internal/testport"
)

// stopMax bounds the wait for a server that was asked to end.
const stopMax = 10 * time.Second

// process is a server that this program started.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
	err   error
	// forks: its children work for it and count with it.
	forks bool
	// ending is the signal that asks it to end.
	ending syscall.Signal
}

// program is a server to be started.
type program struct {
	name, binary string
	args         []string
	environment  []string
	// as is who it runs as; nil: who we are.
	as     *syscall.Credential
	forks  bool
	ending syscall.Signal
}

// start runs a server whose output goes to a file beside its data.
func start(folder, name, binary string, args ...string) (*process, error) {
	return program{name: name, binary: binary, args: args}.start(folder)
}

func (g program) start(folder string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(folder, g.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if g.ending == 0 {
		g.ending = syscall.SIGTERM
	}
	p := &process{
		cmd: exec.Command(g.binary, g.args...), log: log, ended: make(chan struct{}),
		forks: g.forks, ending: g.ending,
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), g.environment...)
	// Ctrl-C is for us, who end it. When we end in any other way, it ends too.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: g.as, Pdeathsig: syscall.SIGKILL}
	if err := fork(p.cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", g.name, err), log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// forks takes what is to be started to a thread that lives as long as we do:
// the signal of a parent's death comes when the thread ends that started.
var forks = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

func fork(cmd *exec.Cmd) error {
	started := make(chan error)
	forks() <- func() { started <- cmd.Start() }
	return <-started
}

// stop ends the process, by force when it does not end as asked.
func (p *process) stop() {
	p.signal(p.ending)
	select {
	case <-p.ended:
	case <-time.After(stopMax):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	_ = p.log.Close()
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
	_ = p.log.Close()
}

// signal fails when the process has ended, which is what is wanted.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

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

// freeAddresses fills in as many.
func freeAddresses(to ...*string) error {
	for _, a := range to {
		var err error
		if *a, err = testport.Free(); err != nil {
			return err
		}
	}
	return nil
}
