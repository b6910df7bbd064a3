package supervise

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// ordered returns an outbox and what arrives at its other end.
func ordered(t *testing.T) (outbox[order], <-chan order) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return newOutbox[order](w), inbox[order](r)
}

// The lease decides over a command's code only where the watcher knew of its end
// when the command ended: work that was finished before stands.
func TestLostLeaseOverridesExitCode(t *testing.T) {
	const exited, term, kill = 0, uint32(syscall.SIGTERM), uint32(syscall.SIGKILL)
	for _, test := range []struct {
		what string
		run  run
		rep  report
		want string
	}{
		{"ended by itself", run{}, report{Status: exited}, "0 child exited 0"},
		{"lost behind its end", run{lost: true, ending: true}, report{Status: exited}, "0 child exited 0"},
		{"lost and asked to end", run{lost: true, ending: true}, report{Status: term, Lost: true}, "70 pawl lease_lost TERM"},
		{"killed at its deadline", run{}, report{Status: kill, Lost: true}, "70 pawl lease_lost KILL"},
		{"to be let go", run{ending: true, yielding: true}, report{Status: exited, Lost: true}, "70 pawl lease_broken 0"},
		{"to be let go behind its end", run{ending: true, yielding: true}, report{Status: exited}, "0 child exited 0"},
		{"ended by its caller", run{ending: true}, report{Status: term, Lost: true}, "143 child signaled TERM"},
	} {
		t.Run(test.what, func(t *testing.T) {
			// No process is its own child: this watcher has ended.
			r := &test.run
			r.watcher = os.Getpid()
			r.orders, _ = ordered(t)
			test.rep.Kind = reportEnded
			if o, err := r.finish(test.rep); err != nil || o.String() != test.want {
				t.Errorf("outcome %q, %v, want %q", o.String(), err, test.want)
			}
		})
	}
}

// A signal that comes while the command is being started is not lost: its sender
// it waits for the run to end.
func TestSignalsBeforeStartAreForwarded(t *testing.T) {
	orders, arrived := ordered(t)
	r := &run{orders: orders}
	r.pass(syscall.SIGUSR1)
	r.pass(syscall.SIGTERM)
	r.hear(t.Context(), report{Kind: reportStarted, Pid: 1})
	r.orders.close()
	var got []syscall.Signal
	for o := range arrived {
		if o.Kind == orderSignal {
			got = append(got, o.Signal)
		}
	}
	if want := []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}; !slices.Equal(got, want) {
		t.Errorf("the watcher is told of %v, want %v", got, want)
	}
}

// A watcher that dies after it has reaped the command and before its report loses how
// the command ended. The outcome must not say that the command never started:
//
//  1. The command is killed at its deadline, and the watcher reaps it.
//  2. The run, which was frozen, wakes up and finds the watcher late. It kills it.
func TestCommandReapedByDyingWatcherCountsAsStarted(t *testing.T) {
	command := exec.Command("true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	orders, _ := ordered(t)
	r := &run{orders: orders, command: command.Process.Pid, lost: true, spare: myChildren(), lease: &fakeLease{}}
	o, err := r.watcherGone()
	if err != nil || o.Code != CodeLost || o.Reason != ReasonLost || o.Child == nil || o.Child.Code != nil || o.Child.Signal != "" {
		t.Errorf("outcome %+v (%v), %v, want a lost lease and a command of which nobody knows how it ended", o, o.Child, err)
	}
}
