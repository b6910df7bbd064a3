//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// These systems have no subreaper, no control groups and no /proc: the process
// group is the means, and what leaves it is out of reach.

type cgroup string

func newCgroup() (cgroup, error) {
	return "", errors.New("this system has no control groups")
}

func (cgroup) open() (*os.File, error) { return nil, errors.ErrUnsupported }

func (cgroup) remove() {}

func subreaper(bool) error { return nil }

func attributes(_, tty int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: tty >= 0, Ctty: max(tty, 0)}
}

type change struct {
	exited    bool
	stopped   syscall.Signal // it is stopped, by this signal
	continued bool
}

// gone holds the wait status of a child that peekChild had to reap, since this system
// cannot look without reaping. A group whose leader is reaped can still be killed as
// long as it has a member, and its number is not reused before.
var gone = make(map[int]syscall.WaitStatus)

func peekChild(pid int) change {
	if _, ok := gone[pid]; ok {
		return change{exited: true}
	}
	var c change
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, unix.WNOHANG|unix.WUNTRACED, nil)
		switch ws := syscall.WaitStatus(status); {
		case err == unix.EINTR:
		case err != nil:
			return change{exited: true}
		case got == 0:
			return c
		case ws.Stopped():
			c.stopped = ws.StopSignal()
		default:
			gone[pid] = ws
			return change{exited: true}
		}
	}
}

func reapOthers(int) {}

// reap does nothing: peekChild has done it.
func reap(int) {}

// sweep kills the group of command and returns when it is empty. Whether
// anything was left in it is not known here.
func sweep(command int, _ map[int]bool, _ cgroup, woken <-chan os.Signal, refused func(pid int)) (ws syscall.WaitStatus, known, left bool) {
	const pause = 5 * time.Millisecond
	for command != 0 {
		err := unix.Kill(-command, unix.SIGKILL)
		_ = peekChild(command)
		if ws, known = gone[command]; errors.Is(err, unix.ESRCH) {
			break
		}
		if errors.Is(err, unix.EPERM) {
			refused(command)
		}
		select {
		case <-woken:
		case <-time.After(pause): //tidy:clock a pause between two looks decides nothing
		}
	}
	return ws, known, false
}

type process struct{ pid int }

func myChildren() map[int]bool { return nil }

type group struct {
	others   []process
	orphaned bool
}

// myGroup knows of the parent alone.
func myGroup() group {
	parent := unix.Getppid()
	theirs, err := unix.Getsid(parent)
	ours, err2 := unix.Getsid(0)
	pgrp, err3 := unix.Getpgid(parent)
	ok := errors.Join(err, err2, err3) == nil && theirs == ours && pgrp != unix.Getpgrp()
	return group{orphaned: !ok}
}

func stopped(int) bool { return false }

func runs(int) bool { return false }

func stopMyself() { _ = unix.Kill(os.Getpid(), syscall.SIGSTOP) }

func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		path, _ = exec.LookPath(os.Args[0])
	}
	return path
}
