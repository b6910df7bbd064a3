package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// C37: two clients that call themselves the same are two all the same.
func TestALabelIsNoIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		o := pawl.Options{TTL: ttl, Label: "worker@host"}
		a, b := s.Dial(t, o), s.Dial(t, o)
		l := take(t, a, "x")
		var held *pawl.HeldError
		if _, err := b.TryAcquire(t.Context(), "x"); !errors.As(err, &held) || held.Label != o.Label {
			t.Fatalf("the second of the same label: %v", err)
		}
		got := later(t, b, "x")
		synctest.Wait()
		if n := s.Waiting(t, "x"); n != 1 {
			t.Errorf("%d wait", n)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next := <-got; next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		if err := l.Check(t.Context()); err == nil {
			t.Error("the first one still holds what the second has")
		}
	})
}

// C51: thirty sessions are granted in the order of their arrival, whatever their
// ids, and one at a time.
func TestGrantsAreInTheOrderOfArrival(t *testing.T) {
	const sessions, rounds = 30, 5
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		first := s.Dial(t, pawl.Options{TTL: ttl})
		var all []*pawl.Client
		for range sessions {
			all = append(all, s.Dial(t, pawl.Options{TTL: ttl}))
		}
		for round := range rounds {
			l := take(t, first, "x")
			var queue []<-chan *pawl.Lease
			for i := range all {
				queue = append(queue, later(t, all[(i*7+round)%sessions], "x"))
				synctest.Wait()
			}
			last := l.Token()
			for i, turn := range queue {
				for _, early := range queue[i:] {
					if len(early) > 0 {
						t.Fatalf("round %d: somebody is granted while place %d is not free", round, i)
					}
				}
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if l = <-turn; l.Token() <= last {
					t.Fatalf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
			}
			let(t, l)
		}
	})
}

// C54: the server is killed at the moment when the answer to an acquire arrives.
// What was answered is held by the same token afterwards, and by nobody else.
func TestKilledAtTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		var highest guard.Token
		for i := range 50 {
			name := fmt.Sprintf("name/%d", i)
			l := take(t, a, name)
			s.Crash()
			s.Start()
			if _, err := b.TryAcquire(t.Context(), name); !errors.Is(err, pawl.ErrHeld) {
				t.Fatalf("%s: the other one's try: %v", name, err)
			}
			if err := l.Check(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if token, held := s.Holder(t, name); !held || token != l.Token() || token <= highest {
				t.Fatalf("%s: token %d is held (%v), %d was granted, %d before it", name, token, held, l.Token(), highest)
			}
			highest = l.Token()
		}
	})
}

// C19: hundreds of holders end together, by silence. One that lives is not lost
// over it, and those who wait are granted in time.
func TestManyEndTogether(t *testing.T) {
	const dead, waiting = 300, 20
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		alive := s.Dial(t, pawl.Options{TTL: ttl})
		own := take(t, alive, "own")
		for i := range dead {
			take(t, path.Dial(t, pawl.Options{TTL: 5 * time.Second}), fmt.Sprintf("name/%d", i))
		}
		var queue sync.WaitGroup
		var late sync.Map
		path.Cut()
		cut := time.Now()
		for i := range waiting {
			queue.Go(func() {
				l, err := alive.Acquire(t.Context(), fmt.Sprintf("name/%d", i*dead/waiting))
				if err != nil {
					t.Error(err)
					return
				}
				late.Store(l.Token(), time.Since(cut))
			})
		}
		queue.Wait()
		late.Range(func(token, after any) bool {
			if d := after.(time.Duration); d < 3*time.Second || d > 7*time.Second {
				t.Errorf("token %v was granted %v after the cut; the TTL was 5 s", token, d)
			}
			return true
		})
		if err := own.Check(t.Context()); err != nil {
			t.Errorf("the one that lives: %v", err)
		}
	})
}

// C49: the server is away, for less than a TTL and for many. Of two candidates at
// most one works at any time, each one's earlier work has ended before it begins
// anew, and somebody leads in the end.
func TestCandidatesOverAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{ttl / 2, 2 * ttl, 10 * ttl} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				ctx, stop := context.WithCancel(t.Context())
				var working atomic.Int32
				var highest atomic.Uint64
				var candidates sync.WaitGroup
				for i := range 2 {
					c := s.Dial(t, pawl.Options{TTL: ttl})
					candidates.Go(func() {
						for {
							l, err := c.Campaign(ctx, "x", []byte{byte(i)})
							if err != nil {
								if ctx.Err() == nil {
									t.Errorf("candidate %d: %v", i, err)
								}
								return
							}
							if n := working.Add(1); n != 1 {
								t.Errorf("%d work at once", n)
							}
							if before := highest.Swap(uint64(l.Token())); before >= uint64(l.Token()) {
								t.Errorf("token %d after %d", l.Token(), before)
							}
							select {
							case <-l.Context().Done():
							case <-ctx.Done():
							}
							working.Add(-1)
							_ = l.Release(context.WithoutCancel(ctx))
						}
					})
				}
				time.Sleep(ttl)
				first := highest.Load()
				s.Stop()
				time.Sleep(outage)
				s.Start()
				time.Sleep(3 * ttl)
				if working.Load() != 1 {
					t.Errorf("%d work after the outage", working.Load())
				}
				if same := highest.Load() == first; same != (outage < ttl) {
					t.Errorf("after %v the token is %d; it was %d", outage, highest.Load(), first)
				}
				stop()
				candidates.Wait()
			})
		})
	}
}
