//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Contain chooses the means by which everything of a command is found.
type Contain string

// The means. Where there is a control group, descendants that left it are
// still found as the processes means finds them.
const (
	ContainAuto      Contain = "auto"      // cgroup where one can be made, else processes
	ContainCgroup    Contain = "cgroup"    // a control group (v2), or the command is not started
	ContainProcesses Contain = "processes" // the process group, and descendants in /proc
)

// Job is a command and how to run it.
type Job struct {
	// Args is the command and its arguments; the command is looked up by Find.
	// There is no shell.
	Args []string
	// Env is the whole environment of the command; see Environ.
	Env []string
	// Signal asks the command to end; 0 is SIGTERM.
	Signal syscall.Signal
	// KillAfter is the time between Signal and the kill, Margin the time between
	// the kill and the lease's deadline; see DefaultKillAfter and Margin.
	KillAfter, Margin time.Duration
	// MaxHold is how long the command may run, from the call of Run on, before it is
	// asked to end although the lease goes on; 0: as long as the lease lives.
	MaxHold time.Duration
	// Contain is the means; empty is ContainAuto.
	Contain Contain
	// Signals delivers the signals to forward, from Catch; if it is nil, Run calls
	// Catch itself. A caller that waits for the lease passes it in, so that no signal
	// is lost between waiting and running.
	Signals <-chan os.Signal
	// Notice, if set, is told what happens beside the ordinary, one line without
	// a newline each. It must not block: its reader may be a stopped terminal.
	Notice func(string)
	// Losing is like Notice, for why the lease is lost or given up; nil: Notice.
	Losing func(string)
	// Overdue, if set, says for how long and why the lease was not renewed.
	Overdue func() string
	// Ending, if set, is called before the first line that says why the command is
	// ended: what is said of the lease after that line would contradict it.
	Ending func()

	// stopping, if set, is called before this process stops itself with its
	// command: by tests of what happens in between.
	stopping func(*run)
}

// passedOn are the signals that go on to the command's group.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2,
}

// Catch diverts the signals that Run forwards into a channel. SIGHUP and SIGINT stay
// ignored, for the command too, if they were ignored when this process was started
// (nohup); Go cannot tell for others.
func Catch() chan os.Signal {
	c := make(chan os.Signal, 2*len(passedOn))
	signal.Notify(c, notIgnored()...)
	return c
}

func notIgnored() []os.Signal {
	var sigs []os.Signal
	for _, sig := range passedOn {
		if !signal.Ignored(sig) {
			sigs = append(sigs, sig)
		}
	}
	return sigs
}
