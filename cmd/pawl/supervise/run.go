//go:build unix

package supervise

import (
	"context"
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

// Run runs the command of job under lease and returns when nothing of it is
// left, so that the lease may be released; not before. Outcome.Code is the exit
// code that the process should end with, also when there is an error, which
// says why the command was not started (a *StartError where the fault is the
// command's). When ctx ends, the command is asked to end and has KillAfter for
// it; its own end is the outcome then.
//
// Run takes the process over: its children, its terminal, its signals. One Run
// at a time, and nothing else may wait for children or start some meanwhile.
// Descriptors without close-on-exec are inherited by the command.
func Run(ctx context.Context, job Job, lease Lease) (Outcome, error) {
	if len(job.Args) == 0 {
		return Failed(CodeUsage, ReasonUsage), errors.New("no command given")
	}
	path, err := Find(job.Args[0], job.Env)
	if err != nil {
		var start *StartError
		errors.As(err, &start)
		return start.Outcome(), err
	}
	if job.Signal == 0 {
		job.Signal = syscall.SIGTERM
	}
	if job.Contain == "" {
		job.Contain = ContainAuto
	}
	// Stopping oneself is a matter of the calling thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &run{job: job, lease: lease, path: path, signals: job.Signals}
	if r.signals == nil {
		own := Catch()
		defer signal.Stop(own)
		r.signals = own
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	r.children = children
	return r.run(ctx)
}

type run struct {
	job   Job
	lease Lease
	path  string

	signals  <-chan os.Signal
	children <-chan os.Signal
	orders   outbox[order]
	reports  <-chan report
	tty      *terminal
	cgroup   cgroup
	spare    map[int]bool // children that were there before

	watcher int // pid
	command int // pid; 0 before it is reported
	early   []syscall.Signal
	ending  bool // the command was asked to end by an order of ours
	lost    bool // the lease was lost, or its window had closed
	paused  bool // this process was, past the watcher's time
	late    bool // the watcher had not done its work in time
	killAt  time.Duration
}

func (r *run) run(ctx context.Context) (Outcome, error) {
	if !r.fresh(ctx) {
		return Failed(CodeLost, ReasonLost), errors.New("too little is left of the lease to start the command")
	}
	timer, err := clock.NewBootTimer()
	if err != nil {
		return Failed(CodeNotExecutable, ReasonNotStarted), err
	}
	defer timer.Stop()
	r.spare = myChildren()
	if err := subreaper(true); err != nil {
		return Failed(CodeNotExecutable, ReasonNotStarted), err
	}
	defer func() { _ = subreaper(false) }()
	if r.job.Contain != ContainProcesses {
		if r.cgroup, err = newCgroup(); err != nil && r.job.Contain == ContainCgroup {
			return Failed(CodeNotExecutable, ReasonNotStarted), fmt.Errorf("make a control group: %w", err)
		}
		defer func() { r.cgroup.remove() }()
	}
	r.tty = openTerminal()
	defer r.tty.close()
	if err := r.startWatcher(); err != nil {
		return Failed(CodeNotExecutable, ReasonNotStarted), fmt.Errorf("start the watcher: %w", err)
	}
	defer ignoreStops()()
	return r.supervise(ctx, timer)
}

// fresh reports whether enough is left of the lease to start something. A grant
// may have waited for its caller: then the server is asked first.
func (r *run) fresh(ctx context.Context) bool {
	return clock.Boottime() < r.window().Term || r.check(ctx, r.lease.Deadline())
}

// check asks the server whether the lease is ours, until an instant at which
// the answer would not matter any more, and whether enough is left of it.
func (r *run) check(ctx context.Context, until time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, until-clock.Boottime())
	defer cancel()
	return r.lease.Check(ctx) == nil && clock.Boottime() < r.window().Term
}

func (r *run) window() window {
	return windowOf(r.lease.Deadline(), r.job.KillAfter, r.job.Margin)
}

func (r *run) startWatcher() error {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orderR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		orderW.Close()
		return err
	}
	defer reportW.Close()
	// The command inherits what this process has inherited, at its own numbers.
	// So the pipes keep theirs, too, instead of being moved to 3 and 4.
	argv := []string{os.Args[0], WatchCommand, strconv.Itoa(int(orderR.Fd())), strconv.Itoa(int(reportW.Fd()))}
	r.watcher, err = forkWatcher(argv, orderR, reportW)
	if err != nil {
		orderW.Close()
		reportR.Close()
		return err
	}
	r.orders, r.reports = newOutbox[order](orderW), inbox[report](reportR)
	w := r.window()
	r.killAt = w.Kill
	r.orders.send(order{Kind: orderStart, Window: w, Setup: &setup{
		Path: r.path, Args: r.job.Args, Env: r.job.Env, Signal: r.job.Signal,
		Contain: r.job.Contain, Cgroup: string(r.cgroup), Foreground: r.handOver(),
	}})
	return nil
}

// forkWatcher starts the watcher in a group of its own, so that neither the
// terminal nor a signal to our group reaches it.
func forkWatcher(argv []string, pipes ...*os.File) (int, error) {
	for _, f := range pipes {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return 0, err
		}
	}
	return syscall.ForkExec(selfPath(), argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
}

// lateShare of the margin is the time that the watcher has for a kill before
// this process steps in.
const lateShare = 4

func (r *run) supervise(ctx context.Context, timer *clock.BootTimer) (Outcome, error) {
	lost, done := r.lease.Lost(), ctx.Done()
	for {
		// The watcher has this long to do what is due; then this process does it.
		due := r.killAt + r.job.Margin/lateShare
		if !r.late {
			timer.Arm(due)
		}
		select {
		case rep, ok := <-r.reports:
			if !ok {
				return r.watcherGone()
			}
			if rep.Kind == reportEnded || rep.Kind == reportFailed {
				return r.finish(rep)
			}
			r.hear(ctx, rep)
		case <-r.lease.Renewed():
			r.renewed()
		case <-lost:
			lost = nil
			r.lost = true
			r.notice("the lease is lost: the command is asked to end")
			r.end(true)
		case <-done:
			done = nil
			r.end(false)
		case sig := <-r.signals:
			r.pass(sig.(syscall.Signal))
		case <-r.children:
			r.watch()
		case <-timer.C():
			// After a pause of our own, the watcher may have been paused as well, or
			// its report may be on its way.
			if now := clock.Boottime(); !r.paused && now > due+r.job.Margin/lateShare {
				r.paused, r.killAt = true, now
			} else if r.late = true; !look(r.watcher).exited {
				r.lost = true
				r.notice("the watcher is late: everything is killed")
				_ = unix.Kill(r.watcher, syscall.SIGKILL)
			}
		}
	}
}

func (r *run) notice(line string) {
	if r.job.Notice != nil {
		r.job.Notice(line)
	}
}

func (r *run) renewed() {
	if r.ending {
		return
	}
	w := r.window()
	r.killAt = w.Kill
	r.orders.send(order{Kind: orderRenewed, Window: w})
}

// end has the command asked to end, once; KillAfter from now, at the latest
// with the window, it is killed.
func (r *run) end(lost bool) {
	if r.ending {
		return
	}
	r.ending = true
	w := r.window().ending(clock.Boottime(), r.job.KillAfter)
	r.killAt = w.Kill
	r.orders.send(order{Kind: orderEnd, Window: w, Lost: lost})
}

// pass passes a signal on. The command hears of those that come before it is
// started when it is.
func (r *run) pass(sig syscall.Signal) {
	if r.command == 0 {
		r.early = append(r.early, sig)
		return
	}
	r.orders.send(order{Kind: orderSignal, Signal: sig})
}

// watch looks after this process's children: a watcher that somebody stopped
// goes on, and what was adopted from elsewhere is reaped.
func (r *run) watch() {
	if look(r.watcher).stopped != 0 {
		_ = unix.Kill(r.watcher, syscall.SIGCONT)
	}
	reapOthers(r.watcher)
}

func (r *run) hear(ctx context.Context, rep report) {
	switch rep.Kind {
	case reportStarted:
		r.command = rep.Pid
		r.tty.started(rep.Pid)
		if !rep.Cgroup && r.cgroup != "" {
			r.cgroup = ""
		}
		for _, sig := range r.early {
			r.pass(sig)
		}
		r.early = nil
	case reportAsked:
		r.lost = true
		r.notice("the lease was not renewed in time: the command is asked to end")
	case reportStopped:
		r.pause(ctx, rep.Signal)
	}
}

// finish ends a run whose watcher has nothing left to watch.
func (r *run) finish(rep report) (Outcome, error) {
	r.orders.close()
	for range r.reports {
	}
	r.await(r.watcher)
	r.tty.take()
	if rep.Kind == reportFailed {
		if rep.Lost {
			return Failed(CodeLost, ReasonLost), errors.New("the lease ended before the command was started")
		}
		if rep.Cgroup {
			return Failed(CodeNotExecutable, ReasonNotStarted), fmt.Errorf("start the command in a control group: %w", rep.Errno)
		}
		err := &StartError{Command: r.job.Args[0], Err: rep.Errno}
		return err.Outcome(), err
	}
	o := ended(syscall.WaitStatus(rep.Status))
	if o.Child.Code == nil {
		r.tty.restore()
	}
	// Only what the watcher knew when the command ended counts: a lease that is
	// lost behind a finished command does not undo its work.
	if rep.Lost && (r.lost || !r.ending) {
		o = o.overruled(CodeLost, ReasonLost)
	}
	return o, nil
}

// watcherGone ends a run whose watcher died: everything that it has left is a
// child of this process by now.
func (r *run) watcherGone() (Outcome, error) {
	r.orders.close()
	ws, known := sweep(r.command, r.spare, r.cgroup, r.children)
	r.tty.take()
	r.tty.restore()
	o := Failed(128+int(syscall.SIGKILL), ReasonWatcherGone)
	if known {
		o.Child = ended(ws).Child
	}
	if r.lost || clock.Boottime() >= r.lease.Deadline() {
		return o.overruled(CodeLost, ReasonLost), nil
	}
	if r.command == 0 {
		return Failed(CodeNotExecutable, ReasonNotStarted), errors.New("the watcher ended at once")
	}
	return o, nil
}

func (r *run) await(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}
