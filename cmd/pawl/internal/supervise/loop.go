//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
)

// lateShare of the margin is the time that the watcher has for a kill before
// this process steps in.
const lateShare = 4

func (r *run) supervise(ctx context.Context, timer, hold *clock.BootTimer) (Outcome, error) {
	lost, done := r.lease.Lost(), ctx.Done()
	for {
		// The watcher has this long to do what is due; then this process does it.
		due := r.killAt + r.job.Margin/lateShare
		switch {
		case len(r.refused) > 0 && !r.overrun:
			timer.Arm(r.lease.Deadline())
		case !r.late:
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
			r.letGo()
		case <-done:
			done = nil
			r.end(false)
		case sig := <-r.signals:
			r.pass(sig)
		case sig := <-r.stops:
			r.pass(sig)
		case <-r.children:
			r.watch()
		case <-hold.C():
			r.heldTooLong()
		case <-timer.C():
			if len(r.refused) > 0 {
				r.outrun()
				continue
			}
			// After a pause of our own, the watcher may have been paused as well, or
			// its report may be on its way.
			if now := clock.Boottime(); !r.paused && now > due+r.job.Margin/lateShare {
				r.paused, r.killAt = true, now
			} else if r.late = true; !peekChild(r.watcher).exited {
				r.losing("the watcher is late: everything is killed")
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

// letGo ends the command of a lease that has ended, or whose holder was asked to
// let go of it. The latter is ours until it is released.
func (r *run) letGo() {
	why, ours := r.lease.Why()
	line := why + ": the command is asked to end"
	switch {
	case !ours && clock.Boottime() >= r.lease.Deadline():
		r.overdue("the command is asked to end")
	case !ours:
		r.losing(line)
	case !r.ending:
		r.yielding = true
		r.verdict(line)
	}
	r.end(!ours)
}

// heldTooLong ends the command of a lease that is held for as long as it may be.
func (r *run) heldTooLong() {
	if r.ending {
		return
	}
	r.overlong = true
	r.verdict(fmt.Sprintf("it has been held for %v: the command is asked to end", r.job.MaxHold))
	r.end(false)
}

// overdue notes that the lease is lost because it was not renewed in time, and says
// what comes of it.
func (r *run) overdue(what string) {
	line := "the lease was not renewed in time: " + what
	if r.job.Overdue != nil {
		line += "; " + r.job.Overdue()
	}
	r.losing(line)
}

// losing notes that the lease is lost, and says so the first time.
func (r *run) losing(line string) {
	if !r.lost {
		r.verdict(line)
	}
	r.lost = true
}

// verdict says why the command is ended.
func (r *run) verdict(line string) {
	if r.job.Ending != nil {
		r.job.Ending()
	}
	r.alarm(line)
}

func (r *run) alarm(line string) {
	if r.job.Losing != nil {
		r.job.Losing(line)
	} else {
		r.notice(line)
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
func (r *run) pass(sig os.Signal) {
	if r.command == 0 {
		r.early = append(r.early, sig)
	} else if n, ok := sig.(syscall.Signal); ok {
		r.orders.send(order{Kind: orderSignal, Signal: n})
	}
}

// watch looks after this process's children: a watcher that somebody stopped
// goes on, and what was adopted from elsewhere is reaped.
func (r *run) watch() {
	if peekChild(r.watcher).stopped != 0 {
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
		r.overdue("the command is asked to end")
		r.ending = true
	case reportStopped:
		r.pause(ctx, rep.Signal)
	case reportRefused:
		if rep.Signal != syscall.SIGKILL {
			r.alarm(fmt.Sprintf("process %d cannot be asked to end: it is another user's by now", rep.Pid))
		} else {
			r.cannotKill(rep.Pid)
		}
	}
}

// cannotKill notes a process that this user may not kill, as after sudo, and says so
// the first time.
func (r *run) cannotKill(pid int) {
	if !slices.Contains(r.refused, pid) {
		r.refused = append(r.refused, pid)
		r.alarm(fmt.Sprintf("process %d cannot be killed: it is another user's by now, and runs on", pid))
	}
}

// outrun says once that the lease has run out under what cannot be killed.
func (r *run) outrun() {
	if r.overrun || clock.Boottime() < r.lease.Deadline() {
		return
	}
	r.overrun = true
	r.alarm(fmt.Sprintf("the lease has run out, and process %d runs on: others may be granted the name", r.refused[0]))
}

// finish ends a run whose watcher has nothing left to watch.
func (r *run) finish(rep report) (Outcome, error) {
	r.orders.close()
	for !peekChild(r.watcher).exited {
		<-r.children
		r.watch()
	}
	reap(r.watcher)
	front := r.tty.take()
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
	if sig := o.Death(); front && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) {
		// Ctrl-C reaches the terminal's foreground group alone, which was the
		// command's. A script that waits for us shares our group, and is to end, too.
		_ = unix.Kill(0, sig)
	}
	if rep.Left {
		r.notice("the command left processes behind: they were ended with it, the lease is released when nothing is left")
	}
	killed := rep.Killed && o.Child.Signal == signalName(syscall.SIGKILL)
	switch {
	case rep.Lost && !r.lost && !r.ending && !killed:
		r.overdue("the command ended too late")
	case rep.Lost && !r.lost && !r.ending:
		// The watcher was stopped, too: nobody asked the command to end.
		r.overdue("the command was killed")
	case killed:
		r.alarm("the command had not ended: it was killed")
	}
	// Only what the watcher knew when the command ended counts: a lease that is
	// lost behind a finished command does not undo its work.
	if rep.Lost && (r.lost || !r.ending) {
		o = o.overruled(CodeLost, ReasonLost)
	} else if rep.Lost && r.yielding {
		o = o.overruled(CodeLost, ReasonBroken)
	} else if rep.Lost && r.overlong {
		o = o.overruled(CodeLost, ReasonMaxHold)
	}
	return o, nil
}

// watcherGone ends a run whose watcher died: everything that it has left is a
// child of this process by now.
func (r *run) watcherGone() (Outcome, error) {
	r.orders.close()
	ws, known, _ := sweep(r.command, r.spare, r.cgroup, r.children, func(pid int) {
		r.cannotKill(pid)
		r.outrun()
	})
	r.tty.take()
	r.tty.restore()
	o := Failed(128+int(syscall.SIGKILL), ReasonWatcherGone)
	if known {
		o.Child = ended(ws).Child
	} else if r.command != 0 {
		o.Child = &Child{} // the watcher has reaped it, and told nobody
	}
	if r.lost || clock.Boottime() >= r.lease.Deadline() {
		return o.overruled(CodeLost, ReasonLost), nil
	}
	if r.command == 0 {
		return Failed(CodeNotExecutable, ReasonNotStarted), errors.New("the watcher ended at once")
	}
	return o, nil
}
