package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// C41: releasing twice adds no place, and the place of a dead holder comes back.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		one, two := with(t, a, "x", pawl.Slots(2)), with(t, b, "x", pawl.Slots(2))
		if one.Slot() != 1 || two.Slot("x") != 2 || two.Slot("y") != 0 {
			t.Errorf("slots %d and %d", one.Slot(), two.Slot())
		}
		if f := two.Fence("x"); f.Resource != "x\x1f2" || f.Token != two.Token() || f.Validate() != nil {
			t.Errorf("fence %v", f)
		}
		try := func() error {
			_, err := b.TryAcquire(t.Context(), "x", pawl.Slots(2))
			return err
		}
		if err := try(); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a third: %v", err)
		}
		let(t, two, two)
		two = with(t, b, "x", pawl.Slots(2))
		if err := try(); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a third after a release was repeated: %v", err)
		}
		for _, other := range [][]pawl.AcquireOption{{pawl.Slots(3)}, {}, {pawl.Shared()}} {
			if _, err := b.TryAcquire(t.Context(), "x", other...); !errors.Is(err, pawl.ErrConflict) {
				t.Errorf("used otherwise: %v", err)
			}
		}
		path.Cut()
		cut := time.Now()
		next := with(t, b, "x", pawl.Slots(2))
		if d := time.Since(cut); d > ttl+time.Second || one.Context().Err() == nil || next.Slot() != 1 {
			t.Errorf("slot %d after %v", next.Slot(), d)
		}
		path.Heal()
		time.Sleep(ttl)
		if err := one.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("a late release: %v", err)
		}
		if n := len(s.Holders(t, "x")); n != 2 {
			t.Errorf("%d hold", n)
		}
		let(t, two, next)
		let(t, with(t, b, "x"))
	})
}

// C56: 50 clients try at the same instant, again and again. As many enter as
// there are slots, each with its own, and never more.
func TestSlotsAtTheSameInstant(t *testing.T) {
	const clients, rounds = 50, 20
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				var all []*pawl.Client
				for range clients {
					all = append(all, s.Dial(t, pawl.Options{TTL: ttl}))
				}
				for round := range rounds {
					var mu sync.Mutex
					var inside []*pawl.Lease
					start := make(chan struct{})
					var tries sync.WaitGroup
					for _, c := range all {
						tries.Go(func() {
							<-start
							l, err := c.TryAcquire(t.Context(), "x", pawl.Slots(n))
							if (l == nil) == (err == nil) || err != nil && !errors.Is(err, pawl.ErrHeld) {
								t.Errorf("try: %v, %v", l, err)
							}
							mu.Lock()
							defer mu.Unlock()
							if l != nil {
								inside = append(inside, l)
							}
						})
					}
					tick()
					close(start)
					tries.Wait()
					slots := map[int]bool{}
					for _, l := range inside {
						slots[l.Slot()] = true
					}
					if len(inside) != n || len(slots) != n || !slots[1] || !slots[n] {
						t.Fatalf("round %d: %d inside, in slots %v", round, len(inside), slots)
					}
					let(t, inside...)
				}
			})
		})
	}
}

// C08: 200 acquires are given up at random moments, some on a network that
// swallows everything. Not one place is missing afterwards.
func TestAbandonedAcquiresLoseNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		r := rand.New(rand.NewPCG(1, 2))
		var most, now atomic.Int64
		for i := range 200 {
			switch i % 10 {
			case 3:
				path.Cut()
			case 4:
				path.DropAnswers()
			case 5:
				path.Heal()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(30))*time.Millisecond)
			var both sync.WaitGroup
			for _, c := range []*pawl.Client{a, b} {
				both.Go(func() {
					l, err := c.Acquire(ctx, "x", pawl.Slots(3))
					if err != nil {
						return
					}
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(10 * time.Millisecond)
					now.Add(-1)
					_ = l.Release(context.Background())
				})
			}
			synctest.Wait()
			if n := len(s.Holders(t, "x")); n > 3 {
				t.Errorf("%d hold", n)
			}
			both.Wait()
			cancel()
		}
		path.Heal()
		time.Sleep(2 * ttl)
		if n := s.Waiting(t, "x"); n != 0 || most.Load() > 3 {
			t.Errorf("%d wait, %d were inside", n, most.Load())
		}
		var tokens []guard.Token
		for range 3 {
			l, err := a.TryAcquire(t.Context(), "x", pawl.Slots(3))
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, l.Token())
		}
		if got := s.Holders(t, "x"); !slices.Equal(got, tokens) {
			t.Errorf("held under %v, granted %v", got, tokens)
		}
	})
}
