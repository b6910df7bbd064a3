//go:build unix

package supervise

import (
	"context"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
)

// handOver reports whether the command's group gets the terminal from the start: only
// if we have it and share it with no other process. In a pipeline or a script, where
// others of our group may want to read keys too, the command gets it when it first
// reads from it (see pause).
func (r *run) handOver() bool {
	if !r.tty.ours() || len(myGroup().others) > 0 {
		return false
	}
	r.tty.given, r.tty.used = true, true
	return true
}

// pause handles a command that was stopped. The watcher keeps the deadline meanwhile.
//
//  1. The command was stopped for using a terminal that our group has: it gets the
//     terminal and goes on.
//  2. No process could continue us (our group is orphaned, or there is no terminal).
//     Then the kernel would not have let the keyboard stop the command, had it been
//     started directly, so it goes on. A stop by other means stays.
//  3. Otherwise we take the terminal back and stop ourselves, so that the shell
//     sees the job stopped. Continued, we ask the server first: hours may have
//     passed. When the command's time has passed meanwhile, the watcher has asked it
//     to end; when the server does not confirm the lease, it is ended as it is. A lease
//     that may ride goes on when no server answers; its deadline is told to the watcher
//     before the server is asked, since nothing is told to it while the answer is out.
func (r *run) pause(ctx context.Context, by syscall.Signal) {
	if runs(r.command) || unix.Kill(r.command, 0) == unix.ESRCH {
		return // it has been continued since, or has ended
	}
	wants := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	if wants && r.tty.ours() {
		r.resume()
		return
	}
	group := myGroup()
	if r.tty == nil || group.orphaned {
		if by == syscall.SIGTSTP {
			r.resume()
		}
		return
	}
	r.tty.take()
	if by == syscall.SIGTSTP {
		// What the keyboard would have stopped with the command.
		for _, p := range group.others {
			_ = unix.Kill(p.pid, syscall.SIGTSTP)
		}
	}
	r.tty.restore()
	if r.job.stopping != nil {
		r.job.stopping(r)
	}
	stopMyself()
	r.renewed()
	until := r.window().Term
	if !r.check(ctx, until) {
		if clock.Boottime() >= until {
			r.overdue("the command is asked to end")
		} else {
			r.losing("the lease is not known to be ours any more: the command is not continued")
		}
		r.end(true)
		return
	}
	r.renewed()
	r.resume()
}

// resume gives the terminal, if we have it, and has the group continued.
func (r *run) resume() {
	if clock.Boottime() >= r.window().Term {
		return
	}
	r.tty.give()
	r.orders.send(order{Kind: orderResume})
}
