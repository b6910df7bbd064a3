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

// Run runs the command of job under lease, and returns only when none of its processes
// is left, so that the lease can be released. Outcome.Code is the exit code that the
// process should end with. It is valid also with an error, which says why the command
// was not started (a *StartError where the fault is the command's). When ctx ends, the
// command is asked to end and has KillAfter for it; the outcome is then how it ended.
//
// Run takes over the process: its children, its terminal, its signals. Only one Run may
// be active at a time, and meanwhile nothing else may start children or wait for them.
// The command inherits descriptors without close-on-exec.
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
	// Ctrl-Z comes to us only where the command does not have the terminal.
	children, stops := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	signal.Notify(stops, syscall.SIGTSTP)
	defer signal.Stop(stops)
	r.children, r.stops = children, stops
	return r.run(ctx)
}

type run struct {
	job   Job
	lease Lease
	path  string

	signals  <-chan os.Signal
	stops    <-chan os.Signal
	children <-chan os.Signal
	orders   outbox[order]
	reports  <-chan report
	tty      *terminal
	cgroup   cgroup
	spare    map[int]bool // children that were there before

	watcher  int         // pid
	command  int         // pid; 0 before it is reported
	early    []os.Signal // came before the command was started
	ending   bool        // the command was asked to end by an order of ours
	lost     bool        // the lease was lost, or its window had closed
	yielding bool        // the lease's holder was asked to let go
	overlong bool        // the command ran for MaxHold
	paused   bool        // this process was, past the watcher's time
	late     bool        // the watcher had not done its work in time
	refused  []int       // processes that this user may not kill
	overrun  bool        // the lease has run out while they run on
	killAt   time.Duration
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
	hold, err := clock.NewBootTimer()
	if err != nil {
		return Failed(CodeNotExecutable, ReasonNotStarted), err
	}
	defer hold.Stop()
	if r.job.MaxHold > 0 {
		hold.Reset(r.job.MaxHold)
	}
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
	return r.supervise(ctx, timer, hold)
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
