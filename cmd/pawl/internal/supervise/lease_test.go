//go:build unix

package supervise

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// bound is for every wait: far above what a slow machine needs.
const bound = time.Minute

type fakeHeld struct {
	ctx       context.Context
	mu        sync.Mutex
	remaining time.Duration
}

func (h *fakeHeld) Context() context.Context { return h.ctx }

func (h *fakeHeld) Remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remaining
}

func (h *fakeHeld) set(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remaining = d
}

func (h *fakeHeld) Check(ctx context.Context) error { return ctx.Err() }

func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := &fakeHeld{ctx: ctx, remaining: time.Minute}
	f, err := Follow(h, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	h.set(time.Hour)
	testwait.Until(t, bound, "the renewal is seen", func() bool {
		select {
		case <-f.Renewed():
			return f.Deadline() > clock.Boottime()+59*time.Minute
		default:
			return false
		}
	})
	cancel()
	<-f.Lost()
	h.set(0)
	if left := f.Deadline() - clock.Boottime(); left < 58*time.Minute {
		t.Errorf("a lease that ended early has a deadline in %v, want the last known", left)
	}
	if f.Check(ctx) == nil {
		t.Error("Check did not ask")
	}
	f.Stop()
}

// pausingHeld is a lease with a fixed end, of which the caller hears late what
// remains.
type pausingHeld struct{ end time.Duration }

func (h pausingHeld) Context() context.Context { return context.Background() }

func (h pausingHeld) Remaining() time.Duration {
	now := clock.Boottime()
	testwait.Holds(bound, func() bool { return clock.Boottime() > now+20*time.Millisecond })
	return h.end - now
}

func (h pausingHeld) Check(ctx context.Context) error { return ctx.Err() }

// A pause between the clock and the lease makes the deadline sooner, never later.
func TestPauseWhileReadingLeaseMakesDeadlineEarlier(t *testing.T) {
	h := pausingHeld{clock.Boottime() + time.Hour}
	f, err := Follow(h, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	if got := f.Deadline(); got > h.end {
		t.Errorf("the deadline is %v behind the lease's own", got-h.end)
	}
}
