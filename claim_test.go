package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// claimer is a guard that does something while it is claimed.
type claimer func(ctx context.Context, f guard.Fence) error

func (c claimer) Claim(ctx context.Context, f guard.Fence) error { return c(ctx, f) }

// A caller that gives up while a guard is claimed leaves no lease behind.
func TestCancelledClaimLeavesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := a.Acquire(ctx, "x", pawl.Claim(claimer(func(ctx context.Context, _ guard.Fence) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("acquire: %v", err)
		}
		if token, held := s.Holder(t, "x"); held {
			t.Errorf("held under %d by nobody", token)
		}
	})
}

// A lease that is broken while its guards are claimed is not handed out, whatever the
// guard says.
func TestClaimOfABrokenLeaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l, err := a.Acquire(t.Context(), "x", pawl.Claim(claimer(func(ctx context.Context, _ guard.Fence) error {
			s.Break(t, "x", "now", true)
			<-ctx.Done()
			return nil
		})))
		if l != nil || !errors.Is(err, pawl.ErrBroken) {
			t.Errorf("acquire: %v, %v", l, err)
		}
	})
}

// What was wrong with the connection is no reason of a wait that runs out later.
func TestPastConnectionErrorIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl})
		take(t, a, "x")
		path.Break()
		time.Sleep(ttl)
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		if _, err := b.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("acquire: %v", err)
		}
	})
}

// A lease that has ended lasts no longer, in whichever way it ended.
func TestEndedLeaseHasNoTimeRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		broken, released := take(t, a, "x"), take(t, a, "y")
		s.Break(t, "x", "now", true)
		<-broken.Context().Done()
		if err := released.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x, y := broken.Remaining(), released.Remaining(); x != 0 || y != 0 {
			t.Errorf("a broken lease lasts for %v, a released one for %v", x, y)
		}
	})
}
