package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// shelf is a database: a guard with a mark of each resource.
type shelf struct{ of map[string]*book }

func (s *shelf) at(r string) *book {
	if s.of[r] == nil {
		s.of[r] = &book{}
	}
	return s.of[r]
}

func (s *shelf) Claim(_ context.Context, f guard.Fence) error { return s.at(f.Resource).write(f, "") }

// A guard takes a lock and each slot for resources of their own. While a rider of a lock may
// be going on, nobody is granted its name as slots.
func TestClaimOfSlotsStopsNoRiderOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		db := &shelf{of: map[string]*book{}}
		l, err := a.Acquire(t.Context(), "x", pawl.Claim(db), pawl.RideThrough(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		path.Cut()
		time.Sleep(2 * ttl)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := b.Acquire(ctx, "x", pawl.Claim(db), pawl.Slots(2))
		if err != nil {
			if !errors.Is(err, pawl.ErrConflict) {
				t.Error(err)
			}
			return
		}
		if err := db.at(l.Fence().Resource).write(l.Fence(), "rider"); err == nil {
			t.Errorf("the rider (%v, riding %t) wrote although %v had claimed", l.Fence(), l.Riding(), n.Fence())
		}
	})
}

// deaf is a guard that does not heed the context of a look at its mark.
type deaf struct {
	book
	heal chan struct{}
}

func (d *deaf) Seen(context.Context, string) (guard.State, error) {
	<-d.heal
	return guard.State{}, nil
}

// A guard that does not heed its context keeps nobody waiting who closes the client.
func TestCloseLeavesADeafGuardBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		d := &deaf{heal: make(chan struct{})}
		defer close(d.heal)
		path := s.NewPath()
		a := path.Dial(t, pawl.Options{TTL: ttl})
		if _, err := a.Acquire(t.Context(), "x", pawl.Claim(d), pawl.RideThrough(time.Hour)); err != nil {
			t.Fatal(err)
		}
		path.Cut()
		time.Sleep(2 * ttl)
		began := time.Now()
		_ = a.Close()
		if took := time.Since(began); took > time.Second+50*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}

// Work may return errors of several resources in one: the lease ends if one of them is its own.
func TestOvertakenFindsItsOwnErrorAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		l := take(t, s.Dial(t, pawl.Options{TTL: ttl}), "x")
		other := &guard.StaleError{Resource: "y", Shown: 1, Seen: 2, Verdict: guard.Stale}
		own := &guard.StaleError{Resource: "x", Shown: l.Token(), Seen: l.Token() + 1, Verdict: guard.Stale}
		if l.Overtaken(fmt.Errorf("work: %w", errors.Join(other, guard.ErrUnknown))) {
			t.Error("ended by an error of another resource")
		}
		if !l.Overtaken(fmt.Errorf("work: %w", errors.Join(other, own))) {
			t.Error("not ended by its own error")
		}
	})
}
