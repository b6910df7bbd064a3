package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// book is a resource with a guard that shows its mark.
type book struct {
	mu    sync.Mutex
	state guard.State
	lines []string
	// away: it gives no answer.
	away bool
	// reads counts the readings of the mark.
	reads int
}

var errAway = errors.New("the resource is away")

func (b *book) Claim(_ context.Context, f guard.Fence) error { return b.write(f, "") }

func (b *book) Seen(context.Context, string) (guard.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.away {
		return guard.State{}, errAway
	}
	return b.state, nil
}

func (b *book) write(f guard.Fence, line string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return fmt.Errorf("%w: %w", guard.ErrUnknown, errAway)
	}
	next, verdict := guard.Decide(guard.Monotonic, b.state, f.Mark())
	if err := verdict.Err(f.Resource, b.state, f.Mark()); err != nil {
		return err
	}
	b.state = next
	if line != "" {
		b.lines = append(b.lines, line)
	}
	return nil
}

func (b *book) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// ride acquires x with a claim of b; the lease may ride for an hour.
func ride(t *testing.T, c *pawl.Client, b *book) *pawl.Lease {
	t.Helper()
	return with(t, c, "x", pawl.Claim(b), pawl.RideThrough(time.Hour))
}

// The service is gone for longer than the TTL: a lease that rides goes on, and is held
// under its token when the service returns. One that does not ride ends by its deadline.
func TestRideThroughOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		rider, other := ride(t, c, b), take(t, c, "y")
		kinds(c)
		s.Stop()
		gone := time.Now()
		<-other.Context().Done()
		if d := time.Since(gone); d > ttl || !errors.Is(context.Cause(other.Context()), pawl.ErrLost) {
			t.Errorf("the other ended after %v with %v", d, context.Cause(other.Context()))
		}
		time.Sleep(10*time.Minute - time.Since(gone))
		if !rider.Riding() || rider.Remaining() != 0 || rider.Context().Err() != nil {
			t.Errorf("riding %v, %v remain, context %v", rider.Riding(), rider.Remaining(), rider.Context().Err())
		}
		if left := rider.RideLeft(); left > 50*time.Minute || left < 49*time.Minute {
			t.Errorf("%v of the ride are left", left)
		}
		asked := time.Now()
		if err := rider.Check(t.Context()); !errors.Is(err, pawl.ErrUnavailable) || time.Since(asked) > 0 {
			t.Errorf("check: %v after %v", err, time.Since(asked))
		}
		if err := b.write(rider.Fence(), "in the outage"); err != nil {
			t.Errorf("write: %v", err)
		}
		if got := kinds(c); !slices.Equal(got, []pawl.EventKind{pawl.Jeopardy, pawl.Riding}) {
			t.Errorf("events %v", got)
		}
		s.Start()
		back := time.Now()
		for rider.Riding() && time.Since(back) < ttl {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(back); d > ttl/4+100*time.Millisecond {
			t.Errorf("a server was asked after %v", d)
		}
		if err := rider.Check(t.Context()); err != nil {
			t.Errorf("check: %v", err)
		}
		if held, _ := s.Holder(t, "x"); held != rider.Token() {
			t.Errorf("held under %d, not %d", held, rider.Token())
		}
		if got := kinds(c); !slices.Equal(got, []pawl.EventKind{pawl.Safe}) {
			t.Errorf("events %v", got)
		}
		if err := rider.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// The holder is cut off while others are not. Its lease ends within two renewal intervals
// after a successor has claimed, by the mark alone, and nothing of it lands afterwards.
func TestRiderReadsHigherMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		path := s.NewPath()
		a, c := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		rider := ride(t, a, b)
		path.Cut()
		time.Sleep(2 * ttl)
		// A guard that gives no answer ends no ride.
		b.setAway(true)
		time.Sleep(2 * ttl)
		b.setAway(false)
		if !rider.Riding() || b.reads < 12 {
			t.Fatalf("riding %v after %d looks at the mark", rider.Riding(), b.reads)
		}
		next := with(t, c, "x", pawl.Claim(b))
		claimed := time.Now()
		if err := b.write(rider.Fence(), "late"); !errors.Is(err, guard.ErrStale) {
			t.Errorf("write after the claim: %v", err)
		}
		<-rider.Context().Done()
		if d := time.Since(claimed); d > 2*ttl/6 {
			t.Errorf("ended %v after the claim", d)
		}
		if cause := context.Cause(rider.Context()); !errors.Is(cause, pawl.ErrLost) || !errors.Is(cause, guard.ErrStale) {
			t.Errorf("cause %v", cause)
		}
		if rider.Riding() || rider.RideLeft() != 0 {
			t.Error("it rides on")
		}
		if err := rider.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("release: %v", err)
		}
		path.Heal()
		time.Sleep(ttl)
		if held, _ := s.Holder(t, "x"); held != next.Token() {
			t.Error("the rider's return ended its successor's lease")
		}
	})
}

// An error of the guard ends the lease: what Do's work returns, or what Overtaken is told.
func TestOvertakenEndsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		l := ride(t, c, b)
		f := l.Fence()
		for name, err := range map[string]error{
			"nil": nil, "unknown": guard.ErrUnknown, "another error": errAway,
			"another resource":        &guard.StaleError{Resource: "y", Shown: f.Token, Seen: f.Token + 1, Verdict: guard.Stale},
			"another token":           &guard.StaleError{Resource: "x", Shown: f.Token - 1, Seen: f.Token, Verdict: guard.Stale},
			"another resource's cell": &guard.ForeignError{Resource: "y", Shown: f.Cell, Seen: "other-1"},
			"out of turn":             &guard.StaleError{Resource: "x", Shown: f.Token, Seen: f.Token, Verdict: guard.Duplicate},
		} {
			if l.Overtaken(err) || l.Context().Err() != nil {
				t.Errorf("%s: the lease has ended", name)
			}
		}
		stale := fmt.Errorf("save: %w", &guard.StaleError{Resource: "x", Shown: f.Token, Seen: f.Token + 1, Verdict: guard.Stale})
		if !l.Overtaken(stale) || l.Context().Err() == nil || !errors.Is(context.Cause(l.Context()), guard.ErrStale) {
			t.Errorf("told of a stale fence: cause %v", context.Cause(l.Context()))
		}
		if !l.Overtaken(&guard.ForeignError{Resource: "x", Shown: f.Cell, Seen: "other-1"}) {
			t.Error("a foreign fence says nothing")
		}
		next := with(t, c, "x", pawl.Claims()) // it is lost at the server, too
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
		err := c.Do(t.Context(), "x", func(ctx context.Context, f guard.Fence) error {
			next := f
			next.Token++
			if err := b.write(next, ""); err != nil {
				return err
			}
			return b.write(f, "late")
		}, pawl.Claim(b))
		if !errors.Is(err, guard.ErrStale) || !errors.Is(err, pawl.ErrLost) {
			t.Errorf("do: %v", err)
		}
	})
}

// While it rides a release waits for 2 s; then the lease is given up, and the service told
// when it is back.
func TestReleaseWhileRiding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		l := ride(t, c, b)
		s.Stop()
		time.Sleep(2 * ttl)
		asked := time.Now()
		err := l.Release(t.Context())
		if d := time.Since(asked); !errors.Is(err, pawl.ErrUnavailable) || d > 2*time.Second+100*time.Millisecond {
			t.Errorf("release: %v after %v", err, d)
		}
		if l.Context().Err() == nil || l.Riding() {
			t.Error("it rides on")
		}
		s.Start()
		take(t, c, "x")
	})
}

func TestRideEndsByItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		l := with(t, c, "x", pawl.Claim(b), pawl.RideThrough(time.Minute))
		if rides := l.RideThrough(); rides != time.Minute {
			t.Errorf("it may ride for %v", rides)
		}
		s.Stop()
		gone := time.Now()
		<-l.Context().Done()
		if d := time.Since(gone); d > time.Minute || d < 55*time.Second {
			t.Errorf("ended after %v", d)
		}
		if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		// What was sent under it may be on its way: its end is no release.
		s.Start()
		other := s.Dial(t, pawl.Options{TTL: ttl})
		deadline := time.Now().Add(2 * ttl)
		var held *pawl.HeldError
		for held == nil || held.ClaimOnly == 0 {
			if l, err := other.TryAcquire(t.Context(), "x"); !errors.As(err, &held) || time.Now().After(deadline) {
				t.Fatalf("an acquire that does not claim: %v, %v", l, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		let(t, with(t, other, "x", pawl.Claim(b)))
	})
}

// A lease that its guard has refused while servers answer is lost, not released.
func TestOvertakenLeaseIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		l := ride(t, c, b)
		if !l.Overtaken(guard.ErrForeign) {
			t.Fatal("it is not overtaken")
		}
		time.Sleep(time.Second)
		var held *pawl.HeldError
		if _, err := c.TryAcquire(t.Context(), "x"); !errors.As(err, &held) || held.ClaimOnly < 59*time.Minute || held.Token != 0 {
			t.Errorf("an acquire that does not claim: %v", err)
		}
		let(t, with(t, c, "x", pawl.Claims()))
	})
}

// Closing the client ends a ride, and the reading of marks.
func TestCloseWhileRiding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		l := ride(t, c, b)
		s.Stop()
		time.Sleep(2 * ttl)
		if err := c.Close(); err == nil {
			t.Error("closed, and no server knows")
		}
		if !errors.Is(context.Cause(l.Context()), pawl.ErrReleased) {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
		reads := b.reads
		time.Sleep(ttl)
		if b.reads != reads {
			t.Error("marks are read on")
		}
	})
}

// One that waits without a claim is told why, and until when, when its context ends. It is
// granted when that time has come.
func TestWaiterWithoutClaimIsToldUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		ride(t, path.Dial(t, pawl.Options{TTL: ttl}), &book{})
		path.Cut()
		time.Sleep(2 * ttl)
		c := s.Dial(t, pawl.Options{TTL: ttl})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Acquire(ctx, "x")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrHeld) {
			t.Fatalf("acquire: %v", err)
		}
		_, text, _ := strings.Cut(err.Error(), ", until ")
		text, _, _ = strings.Cut(text, ": a lease that rides through outages ended unreleased")
		until, parsed := time.Parse(time.RFC3339, text)
		if parsed != nil {
			t.Fatalf("%v: %v", err, parsed)
		}
		with(t, c, "x")
		if d := time.Since(until); d < 0 || d > 2*time.Second {
			t.Errorf("granted %v after the time that was told", d)
		}
	})
}

func TestRideThroughNeedsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pawltest.New(t).Dial(t, pawl.Options{TTL: ttl})
		for name, options := range map[string][]pawl.AcquireOption{
			"no claim":      {pawl.RideThrough(time.Hour)},
			"shared":        {pawl.Claims(), pawl.RideThrough(time.Hour), pawl.Shared()},
			"two names":     {pawl.Claims(), pawl.RideThrough(time.Hour), pawl.Names("y")},
			"for no time":   {pawl.Claims(), pawl.RideThrough(0)},
			"negative":      {pawl.Claims(), pawl.RideThrough(-1)},
			"above a day":   {pawl.Claims(), pawl.RideThrough(24*time.Hour + 1)},
			"an empty list": {pawl.Claim(), pawl.RideThrough(time.Hour)},
		} {
			if _, err := c.Acquire(t.Context(), "x", options...); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, options := range map[string][]pawl.AcquireOption{
			"a day":  {pawl.Claims(), pawl.RideThrough(24 * time.Hour)},
			"a slot": {pawl.Claims(), pawl.RideThrough(time.Hour), pawl.Slots(2)},
		} {
			l, err := c.Acquire(t.Context(), name, options...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			let(t, l)
		}
	})
}

// One that gave up waiting is not told that the name is claim-only when that is over by the
// time that it was told, and otherwise for how long it still is.
func TestClaimOnlyIsToldAsLongAsItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := pawltest.New(t), &book{}
		c := s.Dial(t, pawl.Options{TTL: ttl})
		with(t, c, "x", pawl.Claim(b), pawl.RideThrough(time.Minute)).Overtaken(guard.ErrForeign)
		with(t, c, "x", pawl.Claims())
		wait := func(most time.Duration) (held *pawl.HeldError) {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			if l, err := c.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &held) != (most < time.Minute) {
				t.Errorf("after %v: %v, %v", most, l, err)
			}
			return held
		}
		if held := wait(20 * time.Second); held != nil && (held.ClaimOnly > 41*time.Second || held.ClaimOnly < 39*time.Second) {
			t.Errorf("claim-only for %v more", held.ClaimOnly)
		}
		wait(2 * time.Minute)
	})
}
