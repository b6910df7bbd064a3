package sdk

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
)

// wallClock is a bubble's clock whose wall can be set.
type wallClock struct {
	clock.Clock
	off atomic.Int64
}

func (w *wallClock) Wall() time.Time { return w.Clock.Wall().Add(time.Duration(w.off.Load())) }

// C23: the server's wall clock is set an hour ahead, an hour back, and by years, while
// a lease is held and while one runs out. The remaining time that is shown is always
// within the TTL. No lease ends early or late. Tokens rise, and no caller waits for the
// clock, over a restart too.
func TestServerWallClockStep(t *testing.T) {
	const ttl = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c, w := newCast(t), &wallClock{Clock: clock.Bubble()}
		i := c.launch(t, c.disk, "one", 1, w)
		<-i.cell.Ready()
		a, b := c.client(ttl, "one"), c.client(ttl, "one")
		own := c.take(a, "own")
		look := func(name string) (token guard.Token) {
			t.Helper()
			page, err := i.link.List(t.Context(), &linkpb.ListRequest{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page.Locks {
				for _, h := range l.Holders {
					if left := time.Duration(h.ExpiresInNano); left < 0 || left > ttl {
						t.Errorf("%v remain of %v to %s", left, ttl, name)
					}
					token = guard.Token(h.Token)
				}
			}
			return token
		}
		last := own.Token()
		set := func(to time.Duration) { w.off.Store(int64(to)) }
		for _, to := range []time.Duration{time.Hour, -time.Hour, 0, 30 * 24 * time.Hour, -24 * time.Hour, 0} {
			// A lease of its own that nobody renews, and who waits for it.
			dead, err := i.cell.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"dead"}, TTL: ttl})
			if err != nil {
				t.Fatalf("with the wall at %v: %v", to, err)
			}
			begun := time.Now()
			got := c.later(b, "dead")
			time.Sleep(ttl / 3)
			set(to)
			for range 40 {
				time.Sleep(100 * time.Millisecond)
				if look("own") != own.Token() {
					t.Fatalf("the wall at %v ended a lease that is renewed", to)
				}
				if token := look("dead"); time.Since(begun) < ttl && token != dead.Granted.Token {
					t.Fatalf("the wall at %v ended a lease after %v of %v", to, time.Since(begun), ttl)
				}
			}
			if d := time.Since(begun); len(got) != 1 {
				t.Fatalf("the wall at %v keeps a dead lease for %v", to, d)
			}
			next := <-got
			if dead.Granted.Token <= last || next.Token() <= dead.Granted.Token {
				t.Errorf("the wall at %v: tokens %d, %d, %d", to, last, dead.Granted.Token, next.Token())
			}
			last = next.Token()
			c.let(next)
			i.crash()
			i = c.launch(t, c.disk, "one", 1, w)
			<-i.cell.Ready()
			begun = time.Now()
			next = c.take(b, "after")
			if d := time.Since(begun); d > 2*time.Second {
				t.Errorf("the wall at %v: a grant after a restart took %v", to, d)
			}
			if next.Token() <= last {
				t.Errorf("the wall at %v: token %d after %d over a restart", to, next.Token(), last)
			}
			last = next.Token()
			c.let(next)
		}
		if err := own.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// observation is one answer to "who holds it": the holder's token, 0 for nobody.
type observation struct {
	begun, ended time.Time
	token        guard.Token
	from         string
}

// C27: two servers on one store are asked all the time who holds a name. Meanwhile its
// holder dies, another one is granted the name, the active server is frozen and the
// standby takes over. The answers have one order: after one caller was shown a state,
// no caller is shown an earlier one.
func TestServersAgreeOnHolder(t *testing.T) {
	const ttl = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t)
		first := c.launch(t, c.disk, "first", 1, clock.Bubble())
		<-first.cell.Ready()
		second := c.launch(t, c.disk, "second", 2, clock.Bubble())
		time.Sleep(activeTTL)
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var all []observation
		var readers sync.WaitGroup
		for name, s := range map[string]instance{"first": first, "second": second} {
			for range 3 {
				readers.Go(func() {
					for ctx.Err() == nil {
						g := observation{begun: time.Now(), from: name}
						ask, done := context.WithTimeout(ctx, 5*time.Second)
						page, err := s.link.List(ask, &linkpb.ListRequest{Name: "x"})
						done()
						g.ended = time.Now()
						if err == nil {
							for _, l := range page.Locks {
								for _, h := range l.Holders {
									g.token = guard.Token(h.Token)
								}
							}
							mu.Lock()
							all = append(all, g)
							mu.Unlock()
						}
						time.Sleep(37 * time.Millisecond)
					}
				})
			}
		}
		b := c.client(ttl, "first", "second")
		var last guard.Token
		for round := range 6 {
			active := first
			if !first.cell.Info().Active {
				active = second
			}
			dead, err := active.cell.Acquire(ctx, cell.AcquireRequest{Names: []string{"x"}, TTL: ttl, Wait: 10 * time.Second})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			got := c.later(b, "x")
			time.Sleep(ttl / 2)
			if round%2 == 1 {
				// Cut off from the store before it can say that the holder has ended, until
				// long after the other one has said so.
				active.store.Stall()
				time.Sleep(8 * activeTTL)
				active.store.Resume()
			}
			next := <-got
			if dead.Granted.Token <= last || next.Token() <= dead.Granted.Token {
				t.Errorf("round %d: tokens %d, %d, %d", round, last, dead.Granted.Token, next.Token())
			}
			last = next.Token()
			time.Sleep(200 * time.Millisecond)
			c.let(next)
			time.Sleep(activeTTL)
		}
		stop()
		readers.Wait()
		from := map[string]int{}
		tokens := map[guard.Token]bool{}
		for _, g := range all {
			from[g.from]++
			tokens[g.token] = true
		}
		delete(tokens, 0)
		// A name is held under a token once, so nothing else is seen in between.
		for token := range tokens {
			var seen, still observation // the first to end and the last to begin that show it
			for _, g := range all {
				if g.token == token && (seen.token == 0 || g.ended.Before(seen.ended)) {
					seen = g
				}
				if g.token == token && g.begun.After(still.begun) {
					still = g
				}
			}
			for _, g := range all {
				if g.token != token && g.begun.After(seen.ended) && g.ended.Before(still.begun) {
					t.Fatalf("%s showed %d until %v, %s then %d, and %s from %v on %d again",
						seen.from, token, seen.ended, g.from, g.token, still.from, still.begun, token)
				}
			}
		}
		if from["first"] < 20 || from["second"] < 20 || len(tokens) < 12 {
			t.Errorf("too little was seen: %v answers, %d holders", from, len(tokens))
		}
	})
}

// C89: of two servers the active one is cut off from the store for longer than its
// sessions last, some of which are alive and some dead. It can neither end a session
// nor keep one alive: it answers no request, and the other server decides about the
// sessions.
func TestPartitionedServerDecidesNothing(t *testing.T) {
	const ttl = 6 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t)
		first := c.launch(t, c.disk, "first", 1, clock.Bubble())
		<-first.cell.Ready()
		second := c.launch(t, c.disk, "second", 2, clock.Bubble())
		time.Sleep(activeTTL)
		a := c.client(ttl, "first", "second")
		alive := c.take(a, "alive")
		dead, err := first.cell.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"dead"}, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), ttl*5)
		defer cancel()
		first.store.Stall()
		begun := time.Now()
		asked := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, ttl*2)
			defer cancel()
			_, err := first.cell.RenewLease(ctx, dead.ID, 0)
			asked <- err
		}()
		next, err := a.Acquire(ctx, "dead")
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < ttl || d > ttl+2*activeTTL+2*time.Second {
			t.Errorf("the dead one's name was handed on %v after the cut; its TTL is %v", d, ttl)
		}
		if err := <-asked; err == nil {
			t.Error("the server that is cut off has renewed a lease")
		}
		if err := alive.Check(ctx); err != nil || alive.Context().Err() != nil {
			t.Errorf("the lease of who lives: %v", err)
		}
		if !second.cell.Info().Active {
			t.Error("the other one has not taken over")
		}
		first.store.Resume()
		time.Sleep(2 * ttl)
		if first.cell.Info().Active {
			t.Error("the one that was cut off is active")
		}
		for _, l := range []*pawl.Lease{alive, next} {
			if err := l.Check(ctx); err != nil {
				t.Errorf("%s after the cut healed: %v", l.Name(), err)
			}
		}
	})
}

// C88: an operator breaks the lease that it has listed, while its holder releases it
// and the next one is granted the name. The named lease is ended, or is over already;
// the next holder's lease has another token and stays. It does not matter from where a
// client calls.
func TestBreakSparesNextHolder(t *testing.T) {
	const ttl = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t)
		i := c.launch(t, c.disk, "one", 1, clock.Bubble())
		<-i.cell.Ready()
		clients := []*pawl.Client{c.client(ttl, "one"), c.client(ttl, "one")}
		l := c.take(clients[0], "x")
		missed, hit := 0, 0
		for n := range 200 {
			got := c.later(clients[(n+1)%2], "x")
			synctest.Wait()
			var both sync.WaitGroup
			both.Go(func() { _ = l.Release(t.Context()) })
			both.Go(func() {
				time.Sleep(time.Duration(n%4) * time.Microsecond)
				_, err := i.link.Break(t.Context(), &linkpb.BreakRequest{Name: "x", Token: uint64(l.Token()), Reason: "stuck", Now: true})
				switch status.Code(err) {
				case codes.OK:
					hit++
				case codes.FailedPrecondition, codes.NotFound:
					missed++
				default:
					t.Errorf("break: %v", err)
				}
			})
			both.Wait()
			next := <-got
			if err := next.Check(t.Context()); err != nil || next.Token() <= l.Token() {
				t.Fatalf("round %d: the next holder, %d after %d: %v", n, next.Token(), l.Token(), err)
			}
			l = next
		}
		if missed == 0 {
			t.Errorf("of 200 breaks %d came in time and none late: no race was run", hit)
		}
	})
}
