//go:build unix

package supervise

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// fakeRider is a fakeHeld that may ride.
type fakeRider struct {
	fakeHeld
	more  sync.Mutex
	ride  time.Duration
	check error
}

func (h *fakeRider) RideLeft() time.Duration {
	h.more.Lock()
	defer h.more.Unlock()
	return h.ride
}

func (h *fakeRider) rides(d time.Duration) {
	h.more.Lock()
	defer h.more.Unlock()
	h.ride = d
}

func (h *fakeRider) Check(context.Context) error { return h.check }

// The deadline is the lease's own while renewals are answered. It rolls from before the
// time at which the command would be asked to end, and no further than the ride-through.
// When a server answers it is the lease's own again, and when the lease ends it stays.
func TestDeadlineOfRider(t *testing.T) {
	const ttl, killAfter = time.Hour, 10 * time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := &fakeRider{fakeHeld: fakeHeld{ctx: ctx, remaining: ttl}, ride: 24 * time.Hour}
	f, err := FollowRider(h, ttl, killAfter)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	from := rideFrom(ttl, killAfter)
	want := func(what string, left time.Duration) {
		t.Helper()
		got := f.Deadline() - clock.Boottime()
		if off := left - got; off < 0 || off > time.Minute {
			t.Errorf("%s: the deadline is in %v, want %v", what, got, left)
		}
	}
	want("renewed just now", ttl)
	h.set(from + time.Minute)
	want("silent for a while", from+time.Minute)
	h.set(from - time.Minute)
	want("before the command would be asked to end", ttl)
	h.set(0)
	want("behind the lease's deadline", ttl)
	h.rides(killAfter)
	want("near the end of the ride-through", killAfter)
	h.set(ttl)
	h.rides(24 * time.Hour)
	want("a server answers", ttl)
	h.set(2 * killAfter)
	cancel()
	want("asked to let go", 2*killAfter)
	h.set(0)
	want("lost", 2*killAfter)
}

// A deadline that moves back, as when a server answers, is told to the watcher, too.
func TestDeadlineThatMovesBackIsTold(t *testing.T) {
	const ttl = time.Minute
	h := &fakeRider{fakeHeld: fakeHeld{ctx: t.Context()}, ride: time.Hour}
	f, err := FollowRider(h, ttl, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	<-f.Renewed()
	h.set(ttl / 2)
	testwait.Until(t, bound, "the lease's own deadline is told", func() bool {
		select {
		case <-f.Renewed():
			return f.Deadline() < clock.Boottime()+ttl/2
		default:
			return false
		}
	})
}

// Want of an answer is no reason to end the command of a lease that may ride. The end of
// the lease is, and that of the caller.
func TestCheckOfRider(t *testing.T) {
	none := errors.New("no server answers")
	live, end := context.WithCancel(t.Context())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	h := &fakeRider{fakeHeld: fakeHeld{ctx: live}, ride: time.Hour}
	f, err := FollowRider(h, time.Minute, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("confirmed: %v", err)
	}
	h.check = none
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("no server answers: %v", err)
	}
	if f.Check(over) == nil {
		t.Error("a caller that has ended")
	}
	h.rides(0)
	if f.Check(t.Context()) == nil {
		t.Error("the ride-through is over")
	}
	h.rides(time.Hour)
	end()
	if f.Check(t.Context()) == nil {
		t.Error("the lease has ended")
	}
}

// Renewals that are answered never make the deadline roll, with the kill-after that users
// have. While it rolls there are eight looks before a command is asked to end.
func TestRollingWindow(t *testing.T) {
	for ttl := 2 * time.Second; ttl <= bounds.TTLMax; ttl = ttl * 5 / 4 {
		longest := ttl * 11 / (10 * renewalsPerTTL)
		if from := rideFrom(ttl, DefaultKillAfter(ttl)); from > ttl-longest {
			t.Errorf("TTL %v: it rolls from %v before the deadline, where renewals leave %v", ttl, from, ttl-longest)
		}
		kill := DefaultKillAfter(ttl)
		for ; Fits(ttl, kill); kill += ttl / 100 {
			if w := windowOf(ttl, kill, Margin(ttl)); w.Term < 8*ttl/followShare {
				t.Errorf("TTL %v, kill-after %v: the command is asked to end after %v", ttl, kill, w.Term)
			}
		}
	}
}
