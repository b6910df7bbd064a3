package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

// C06: tries and waits reach the server, their answers are lost, and they are given
// up before anything can be said about that. Some of them were granted. Once the
// client is back, within its TTL, it gives them back: the next caller is served at once,
// and holds alone.
func TestAbandonedAcquireReleasedWhenAnswersAreLost(t *testing.T) {
	const ttl = 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b, c := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		granted := 0
		for round := range 40 {
			free, try := round%2 == 0, round%4 < 2
			var l *pawl.Lease
			if !free {
				l = take(t, a, "x")
			}
			path.DropAnswers()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(10+round)*time.Millisecond)
			var err error
			if try {
				_, err = b.TryAcquire(ctx, "x")
			} else {
				_, err = b.Acquire(ctx, "x")
			}
			cancel()
			if err == nil {
				t.Fatalf("round %d: granted without an answer", round)
			}
			if _, held := s.Holder(t, "x"); held && free {
				granted++
			}
			if l != nil {
				let(t, l)
			}
			time.Sleep(ttl / 4)
			path.Heal()
			// It has to find its way back first.
			time.Sleep(2 * time.Second)
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			next, err := c.Acquire(ctx, "x")
			cancel()
			if err != nil {
				t.Fatalf("round %d: the next caller: %v; held under %v, %d wait", round, err, s.Holders(t, "x"), s.Waiting(t, "x"))
			}
			if all := s.Holders(t, "x"); len(all) != 1 || all[0] != next.Token() || s.Waiting(t, "x") != 0 {
				t.Errorf("round %d: held under %v, granted %d", round, all, next.Token())
			}
			let(t, next)
		}
		if granted == 0 {
			t.Error("nothing was granted unheard: no orphan could be left")
		}
		if n := s.Sessions(t); n != 3 {
			t.Errorf("%d sessions", n)
		}
	})
}

// C07: a wait that times out leaves no place in the queue, in any mode. It blocks no
// later waiter, neither one of the same mode nor an exclusive one.
func TestWaitTimesOutInEveryMode(t *testing.T) {
	for name, tc := range map[string]struct{ held, waits []pawl.AcquireOption }{
		"exclusive":         {nil, nil},
		"shared":            {nil, []pawl.AcquireOption{pawl.Shared()}},
		"a writer":          {[]pawl.AcquireOption{pawl.Shared()}, nil},
		"slots":             {[]pawl.AcquireOption{pawl.Slots(1)}, []pawl.AcquireOption{pawl.Slots(1)}},
		"several names":     {nil, []pawl.AcquireOption{pawl.Names("y", "z")}},
		"with a value":      {nil, []pawl.AcquireOption{pawl.Value([]byte("me"))}},
		"an election":       {nil, nil},
		"with a lock-delay": {nil, []pawl.AcquireOption{pawl.LockDelay(time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				a, b, c := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
				l := with(t, a, "x", tc.held...)
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					var err error
					if name == "an election" {
						_, err = b.Campaign(ctx, "x", []byte("me"))
					} else {
						_, err = b.Acquire(ctx, "x", tc.waits...)
					}
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("the wait: %v", err)
					}
				}
				synctest.Wait()
				if n := s.Waiting(t, "x"); n != 0 {
					t.Errorf("%d wait", n)
				}
				if name == "a writer" {
					let(t, with(t, c, "x", pawl.Shared())) // a writer that waits would keep it out
				}
				let(t, l)
				begun := time.Now()
				let(t, with(t, c, "x", tc.held...))
				let(t, with(t, c, "x"))
				if d := time.Since(begun); d > time.Second {
					t.Errorf("the next ones waited %v", d)
				}
				if n := s.Sessions(t); n != 3 {
					t.Errorf("%d sessions", n)
				}
			})
		})
	}
}
