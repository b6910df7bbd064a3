//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
)

// WatchCommand is the hidden command under which a binary must call WatcherMain.
const WatchCommand = "__watch"

// WatcherMain is the watcher, which is all of `pawl __watch`. args are the arguments
// that Run gave after the command's name. It returns the exit code with which the
// process must end. Call it before anything else handles signals or arguments.
func WatcherMain(args []string) int {
	// The command is killed when the thread that started it ends.
	runtime.LockOSThread()
	in, out, err := watcherPipes(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pawl %s is run by pawl itself: %v\n", WatchCommand, err)
		return CodeUsage
	}
	// Caught, not ignored: what is ignored is inherited. The watcher ends when
	// its work does, or by SIGKILL.
	signal.Notify(make(chan os.Signal, 1), append(notIgnored(), syscall.SIGTSTP)...)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	timer, err := clock.NewBootTimer()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pawl %s: %v\n", WatchCommand, err)
		return CodeNotExecutable
	}
	w := &watcher{
		orders:   inbox[order](in),
		reports:  newOutbox[report](out),
		children: children,
		timer:    timer,
	}
	defer w.reports.flush()
	if w.start() {
		w.watch()
	}
	return 0
}

func watcherPipes(args []string) (in, out *os.File, err error) {
	if len(args) != 2 {
		return nil, nil, errors.New("want two descriptors")
	}
	var files [2]*os.File
	for i, arg := range args {
		fd, err := strconv.Atoi(arg)
		if err != nil || fd < 3 {
			return nil, nil, fmt.Errorf("descriptor %q", arg)
		}
		// The command must not hold them: the other side waits for their end.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, nil, fmt.Errorf("descriptor %d: %w", fd, err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, nil, fmt.Errorf("descriptor %d: %w", fd, err)
		}
		files[i] = os.NewFile(uintptr(fd), "run")
	}
	return files[0], files[1], nil
}

type watcher struct {
	orders   <-chan order
	reports  outbox[report]
	children <-chan os.Signal
	timer    *clock.BootTimer

	setup       *setup
	cgroup      cgroup
	window      window
	command     int  // pid and group
	asked       bool // the command was asked to end, no renewal counts
	gone        bool // the lease is known not to be ours any more
	halted      bool // the command is stopped
	stopOrdered bool // the run was told of a stop: it may stop itself, however late
}

// start starts the command and reports whether there is one.
func (w *watcher) start() bool {
	o, ok := <-w.orders
	if !ok || o.Kind != orderStart {
		return false
	}
	w.setup, w.window, w.cgroup = o.Setup, o.Window, cgroup(o.Setup.Cgroup)
	fail := report{Kind: reportFailed}
	err := subreaper(true)
	if err == nil && clock.Boottime() >= w.window.Term {
		fail.Lost = true
		w.reports.send(fail)
		return false
	}
	if err == nil {
		w.command, err = w.spawn()
	}
	if err != nil {
		fail.Cgroup = errors.Is(err, errCgroup)
		errors.As(err, &fail.Errno)
		w.reports.send(fail)
		w.cgroup.remove()
		return false
	}
	w.reports.send(report{Kind: reportStarted, Pid: w.command, Cgroup: w.cgroup != ""})
	return true
}

var errCgroup = errors.New("start in the control group")

// spawn starts the command. The terminal or the control group may fail instead of the
// command. The command has not run then, so spawn tries again without them where that
// is allowed.
func (w *watcher) spawn() (int, error) {
	var tty, group *os.File
	if w.setup.Foreground {
		if f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
			defer f.Close()
			tty = f
		}
	}
	if w.cgroup != "" {
		f, err := w.cgroup.open()
		switch {
		case err == nil:
			defer f.Close()
			group = f
		case w.setup.Contain == ContainCgroup:
			return 0, fmt.Errorf("%w: %w", errCgroup, err)
		default:
			w.cgroup = ""
		}
	}
	pid, err := w.forkOn(group, tty)
	if err == nil || group == nil || commandFault(err) {
		return pid, err
	}
	if w.setup.Contain == ContainCgroup {
		if executable(w.setup.Path) == nil {
			err = fmt.Errorf("%w: %w", errCgroup, err)
		}
		return 0, err
	}
	if pid, err = w.forkOn(nil, tty); err == nil {
		w.cgroup.remove()
		w.cgroup = ""
	}
	return pid, err
}

func (w *watcher) forkOn(group, tty *os.File) (int, error) {
	pid, err := w.fork(group, tty)
	if err != nil && tty != nil && !commandFault(err) {
		pid, err = w.fork(group, nil)
	}
	return pid, err
}

// commandFault reports whether only the command's file can be meant: a control
// group that is there does not give these.
func commandFault(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOEXEC) || errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.ETXTBSY)
}

func (w *watcher) fork(group, tty *os.File) (int, error) {
	fd := func(f *os.File) int {
		if f == nil {
			return -1
		}
		return int(f.Fd())
	}
	return syscall.ForkExec(w.setup.Path, w.setup.Args, &syscall.ProcAttr{
		Env:   w.setup.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   attributes(fd(group), fd(tty)),
	})
}

// watch returns when nothing of the command is left.
func (w *watcher) watch() {
	for {
		ended, now := w.poll(), clock.Boottime()
		// One that is stopped could not hear of the request to end without being
		// continued, and under a lost lease it may not be.
		if ended || now >= w.window.Kill || w.gone && w.halted {
			w.finish(w.asked || now >= w.window.Kill, !ended)
			return
		}
		if !w.asked && now >= w.window.Term {
			w.ask()
			w.reports.send(report{Kind: reportAsked})
		}
		if w.asked {
			w.timer.Arm(w.window.Kill)
		} else {
			w.timer.Arm(w.window.Term)
		}
		select {
		case o, ok := <-w.orders:
			if !ok {
				w.finish(true, true)
				return
			}
			w.obey(o)
		case <-w.children:
		case <-w.timer.C():
		}
	}
}

// poll looks at the command and reports whether it has ended.
func (w *watcher) poll() bool {
	reapOthers(w.command)
	c := peekChild(w.command)
	switch {
	case c.exited:
		return true
	case c.stopped != 0:
		w.halted, w.stopOrdered = true, true
		w.reports.send(report{Kind: reportStopped, Signal: c.stopped})
	case c.continued:
		w.halted = false
	}
	return false
}

func (w *watcher) obey(o order) {
	switch o.Kind {
	case orderRenewed:
		if !w.asked {
			w.window = o.Window
		}
	case orderSignal:
		_ = w.signal(o.Signal) // its sender would not get an error either
	case orderResume:
		// The run has asked the server; the deadline has the last word.
		if clock.Boottime() < w.window.Term {
			_ = w.signal(syscall.SIGCONT) // the lease's end has the last word
			w.halted = false
		}
	case orderEnd:
		w.end(o.Window, o.Lost)
	}
}

// end asks the command to end, by order.
func (w *watcher) end(until window, lost bool) {
	w.gone = w.gone || lost
	if w.asked {
		w.window.Kill = min(w.window.Kill, until.Kill)
		return
	}
	w.window = until
	w.ask()
}

// ask asks the command to end. One that is stopped must be continued to hear of
// it, which it may be as long as the lease is ours.
func (w *watcher) ask() {
	w.asked = true
	if errors.Is(w.signal(w.setup.Signal), unix.EPERM) {
		w.reports.send(report{Kind: reportRefused, Pid: w.command, Signal: w.setup.Signal})
	}
	if !w.gone {
		_ = w.signal(syscall.SIGCONT) // the lease's end has the last word
	}
}

// signal signals the group. Its number cannot belong to another group, since the
// command is not reaped before the end. The error is EPERM when this user may signal no
// process of the group.
func (w *watcher) signal(sig syscall.Signal) error { return unix.Kill(-w.command, sig) }

// finish kills what is left of the command, waits until it is gone, and reports.
// killed: the command itself is left.
func (w *watcher) finish(lost, killed bool) {
	_ = w.signal(syscall.SIGKILL) // sweep finds whom that does not reach
	told := make(map[int]bool)
	status, _, left := sweep(w.command, nil, w.cgroup, w.children, func(pid int) {
		if !told[pid] {
			told[pid] = true
			w.reports.send(report{Kind: reportRefused, Pid: pid, Signal: syscall.SIGKILL})
		}
	})
	w.cgroup.remove()
	w.reports.send(report{Kind: reportEnded, Status: uint32(status), Left: left && !lost, Killed: killed, Lost: lost})
	if w.stopOrdered {
		w.wake(unix.Getppid())
	}
}

// wakeGap is the pause between two looks at a run that may be about to stop.
const wakeGap = 20 * time.Millisecond

// wake makes sure that a run learns of the command's end although it stops itself
// together with its command: no other process would continue it. The stop may come
// late:
//
//  1. The command stops. The run is told, and finds it stopped.
//  2. The command ends, and the end is reported.
//  3. The run handles the first report, and stops itself.
//
// So the watcher stays until the run has closed the pipe of orders. It does so when it
// has read of the end, or by its own end.
func (w *watcher) wake(run int) {
	for {
		if stopped(run) {
			_ = unix.Kill(run, syscall.SIGCONT)
		}
		w.timer.Reset(wakeGap)
		select {
		case _, ok := <-w.orders:
			if !ok {
				return
			}
		case <-w.timer.C():
		}
	}
}
