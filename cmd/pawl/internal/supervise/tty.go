//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process. A nil terminal is none,
// and every method is safe on it.
type terminal struct {
	f     *os.File
	modes *unix.Termios // as they were before the command had it
	child int           // the command's group; 0 before it was started
	given bool          // the command's group was made the foreground group
	used  bool          // it was, at some time
}

func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{f: f}
	t.modes, _ = unix.IoctlGetTermios(t.fd(), ioctlGetModes)
	return t
}

func (t *terminal) fd() int { return int(t.f.Fd()) }

// ours reports whether this process is in the terminal's foreground group.
func (t *terminal) ours() bool {
	return t != nil && t.foreground() == unix.Getpgrp()
}

func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

func (t *terminal) set(group int) error {
	return unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group)
}

// started tells which group the command's is.
func (t *terminal) started(group int) {
	if t != nil {
		t.child = group
	}
}

// give makes the command's group the foreground group, if that is ours to give.
func (t *terminal) give() {
	if t.ours() && t.child != 0 && t.set(t.child) == nil {
		t.given, t.used = true, true
	}
}

// take makes our group the foreground group again, unless a third group is by now. It
// reports whether the command's group was it. SIGTTOU must be ignored by then: with its
// default, the call fails in an orphaned group and stops any other.
func (t *terminal) take() bool {
	if t == nil || !t.given {
		return false
	}
	front := t.foreground()
	if front == t.child || unix.Kill(-front, 0) == unix.ESRCH {
		_ = t.set(unix.Getpgrp())
	}
	t.given = false
	return front == t.child
}

// restore undoes what a command that did not end by itself left of its modes.
func (t *terminal) restore() {
	if t.ours() && t.used && t.modes != nil {
		_ = unix.IoctlSetTermios(t.fd(), ioctlSetModes, t.modes)
	}
}

// close gives the terminal up; stops for writing to it count again.
func (t *terminal) close() {
	if t != nil {
		_ = t.f.Close()
	}
}

// ignoreStops keeps the terminal from stopping this process for using it while
// another group has it. What is ignored is inherited: not before the watcher
// was started.
func ignoreStops() (undo func()) {
	signal.Ignore(syscall.SIGTTOU)
	return func() { signal.Reset(syscall.SIGTTOU) }
}
