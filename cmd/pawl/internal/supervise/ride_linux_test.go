package supervise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// ridingLease is a fakeLease as the SDK would give one that may ride until an instant.
type ridingLease struct {
	*fakeLease
	ctx context.Context
	end time.Duration
}

func (l ridingLease) Context() context.Context { return l.ctx }

func (l ridingLease) Remaining() time.Duration {
	if l.ctx.Err() != nil {
		return 0
	}
	return max(l.Deadline()-clock.Boottime(), 0)
}

func (l ridingLease) RideLeft() time.Duration { return max(l.end-clock.Boottime(), 0) }

// rider has a lease ride for as long as s says.
func rider(s spec, l *fakeLease) Lease {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		<-l.lost
		cancel(errors.New("lease lost: overtaken"))
	}()
	f, err := FollowRider(ridingLease{l, ctx, clock.Boottime() + s.Rides}, s.TTL, s.KillAfter)
	if err != nil {
		panic(err)
	}
	return f
}

// riding starts a command and waits until its lease's deadline is well behind.
func riding(t *testing.T, s spec, text string) (*job, process) {
	t.Helper()
	dir := t.TempDir()
	s.TTL, s.Args = 2*time.Second, script(dir, text)
	j := start(t, s)
	p := started(t, dir, "leader")
	behind := clock.Boottime() + 3*time.Second
	testwait.Until(t, bound, "the lease's deadline is behind", func() bool { return clock.Boottime() > behind })
	if !p.running() {
		t.Fatal("the command was ended while the lease rode")
	}
	return j, p
}

const goesOn = "up; exec sleep 1000"

func TestCommandOfRiderOutlivesDeadline(t *testing.T) {
	j, _ := riding(t, spec{Rides: time.Hour}, "up; read line; exit 4")
	j.stdin.Close()
	j.want("4 child exited 4")
	if said := j.stderr.String(); said != "" {
		t.Errorf("the run says %q", said)
	}
}

// The run, which alone hears that the lease was overtaken, is stopped: the watcher ends the
// command within a TTL.
func TestStoppedRunOfRiderHasCommandEnded(t *testing.T) {
	j, p := riding(t, spec{Rides: time.Hour}, goesOn)
	w := watcherOf(t, j.cmd.Process.Pid)
	j.signal(unix.SIGSTOP)
	goneSoon(t, p, w)
	if !stopped(j.cmd.Process.Pid) {
		t.Error("the run is not stopped: it was not the watcher that did it")
	}
	j.signal(unix.SIGCONT)
	j.wantLost()
}

func TestKilledRunOfRiderHasCommandKilled(t *testing.T) {
	j, p := riding(t, spec{Rides: time.Hour}, goesOn)
	w := watcherOf(t, j.cmd.Process.Pid)
	j.signal(unix.SIGKILL)
	goneSoon(t, p, w)
}

// The command is asked to end before the ride-through is over, not when it is.
func TestCommandEndsWithRideThrough(t *testing.T) {
	const rides = 6 * time.Second
	began := clock.Boottime()
	j, _ := riding(t, spec{Rides: rides, KillAfter: 500 * time.Millisecond, Margin: 500 * time.Millisecond}, `trap 'echo asked; exit 0' TERM; up; while :; do sleep 0.05; done`)
	j.want("70 pawl lease_lost 0")
	if got := j.stdout.String(); got != "asked\n" {
		t.Errorf("stdout %q", got)
	}
	if said := j.stderr.String(); !strings.Contains(said, "the lease was not renewed in time: the command is asked to end; for a reason") {
		t.Errorf("the run says %q", said)
	}
	if took := clock.Boottime() - began; took < 3*time.Second {
		t.Errorf("it was asked to end after %v", took)
	}
}

func TestOvertakenRiderHasCommandEnded(t *testing.T) {
	j, _ := riding(t, spec{Rides: time.Hour}, `trap '' TERM; up; while :; do sleep 0.05; done`)
	j.send(instruction{Lost: true})
	j.want("70 pawl lease_lost KILL")
	if said := j.stderr.String(); !strings.Contains(said, "the lease is lost: overtaken: the command is asked to end") {
		t.Errorf("the run says %q", said)
	}
}

// A job that was stopped by Ctrl-Z goes on when no server answers and its lease may ride.
func TestRiderContinuedWithoutServer(t *testing.T) {
	s := onTerminal(t, spec{Args: front(), TTL: 20 * time.Second, Rides: time.Hour}, true)
	s.says("up front=true <nil>")
	s.send(instruction{Check: "no server answers"})
	s.press(ctrlZ)
	s.event("stopped")
	s.continues(true)
	s.press("again\nexit 3\n")
	s.says("again front=true <nil>")
	s.exits("3 child exited 3")
}
