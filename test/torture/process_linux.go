package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
)

// process is a node's, which is started again when it ends, as a supervisor does.
type process struct {
	ctx       context.Context // the run's
	node      string
	namespace namespace
	argv      []string
	env       []string
	log       *os.File
	disk      string // a tmpfs; empty: none
	// changed is told when the process went down or came up by itself.
	changed func(change)

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{}
	killed  bool // by us
	closing bool
	down    bool     // it ended by itself, and has not been started again
	full    bool     // its disk
	emptied moment   // when its disk got room again
	own     int      // how often it ended by itself
	odd     []string // how it ended without any fault's doing
}

const (
	// backAfter is how long a supervisor waits.
	backAfter = 300 * time.Millisecond
	// ownMost bounds how often a process may end by itself.
	ownMost = 1000
	// emptyAfter is how long after a disk got room again its process may still end for
	// want of it.
	emptyAfter = 3 * time.Second
	// damaged is the exit code of a server that finds its log damaged or set back, which
	// no fault here explains.
	damaged = 65
)

// start begins the process.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked()
}

func (p *process) startLocked() error {
	if p.closing {
		return nil
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := p.namespace.do(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", p.node, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.killed = cmd, ended, false
	go p.wait(cmd, ended)
	return nil
}

// wait sees to it that the process is started again when it ends by itself.
func (p *process) wait(cmd *exec.Cmd, ended chan struct{}) {
	_ = cmd.Wait() // its state tells
	p.mu.Lock()
	byUs := p.killed || p.closing
	if !byUs {
		now := clock.Boottime()
		how := fmt.Sprintf("%s ended with %v", p.node, cmd.ProcessState)
		p.own++
		p.down = true
		forced := p.full || p.emptied > 0 && now-p.emptied < emptyAfter
		if !forced || cmd.ProcessState.ExitCode() == damaged {
			p.odd = append(p.odd, how)
			_ = os.WriteFile(p.log.Name()+".odd", p.lastWords(), 0o600)
		}
		p.changed(change{at: now, node: p.node, delta: 1, what: how})
	}
	close(ended)
	again := !byUs && p.own < ownMost
	p.mu.Unlock()
	if !again {
		return
	}
	if wait(p.ctx, backAfter) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.cmd != cmd { // meanwhile; who killed it starts it
		return
	}
	if err := p.startLocked(); err != nil {
		p.odd = append(p.odd, err.Error())
		return
	}
	p.back()
}

// back notes that a process that had ended by itself is not down for that any more.
func (p *process) back() {
	if p.down {
		p.down = false
		p.changed(change{at: clock.Boottime(), node: p.node, delta: -1, what: p.node + " is started again"})
	}
}

// kill kills the process; it is not started again by itself.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.back()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	_ = cmd.Process.Kill() // fails when it has ended
	<-ended
}

// signal sends one, if there is a process.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Process.Signal(s) // it may end just now
	}
}

// close asks the process to end, and kills it when it does not.
func (p *process) close(within time.Duration) {
	p.mu.Lock()
	p.closing = true
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(within):
		_ = cmd.Process.Kill()
		<-ended
	}
}

func (p *process) ballast() string { return filepath.Join(p.disk, "ballast") }

// fill leaves no room on the process's disk.
func (p *process) fill() error {
	p.mu.Lock()
	p.full = true
	p.mu.Unlock()
	f, err := os.Create(p.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	var size int64
	for piece := int64(64 << 20); piece >= 4096; {
		switch err := unix.Fallocate(int(f.Fd()), 0, size, piece); err {
		case nil:
			size += piece
		case unix.ENOSPC:
			piece /= 2
		case unix.EINTR:
		default:
			return fmt.Errorf("fill the disk of %s: %w", p.node, err)
		}
	}
	return nil
}

// empty makes room again.
func (p *process) empty() error {
	p.mu.Lock()
	p.full, p.emptied = false, clock.Boottime()
	p.mu.Unlock()
	return os.Remove(p.ballast())
}

const lastWordsMost = 3 << 10

// lastWords is the end of the log.
func (p *process) lastWords() []byte {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-lastWordsMost):])
}
