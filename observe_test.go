package pawl_test

import (
	"context"
	"errors"
	"fmt"
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

// follower reads an observation to its end.
type follower struct {
	mu    sync.Mutex
	seen  []string
	err   error
	ended chan struct{}
}

// follow observes in the background; it writes "value" or "-" for nobody.
func follow(ctx context.Context, c *pawl.Client, name string) *follower {
	f := &follower{ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		for l, err := range c.Observe(ctx, name) {
			f.mu.Lock()
			switch {
			case err != nil:
				f.err = err
			case l.Token == 0:
				f.seen = append(f.seen, "-")
			default:
				f.seen = append(f.seen, string(l.Value))
			}
			f.mu.Unlock()
		}
	}()
	return f
}

// saw is what came since it was last asked.
func (f *follower) saw() []string {
	time.Sleep(time.Second) //tidy:bubble only called in bubbles
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}

func campaign(t *testing.T, c *pawl.Client, value string) *pawl.Lease {
	t.Helper()
	l, err := c.Campaign(t.Context(), "x", []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: observed %q, not %q", what, got, want)
	}
}

func TestCampaignAndObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: ttl, Label: "a"}), path.Dial(t, pawl.Options{TTL: ttl})
		watcher := s.Dial(t, pawl.Options{TTL: ttl})
		ctx, cancel := context.WithCancel(t.Context())
		f, g := follow(ctx, watcher, "x"), follow(ctx, a, "x")
		expect(t, "at first", f.saw(), "-")
		expect(t, "at first", g.saw(), "-")

		l := campaign(t, a, "10.0.0.1")
		expect(t, "a leads", f.saw(), "10.0.0.1")
		for leader, err := range watcher.Observe(t.Context(), "x") {
			if err != nil || leader.Token != l.Token() || leader.Label != "a" {
				t.Errorf("leader %v, %v", leader, err)
			}
			break
		}
		late := follow(t.Context(), watcher, "x")
		expect(t, "who comes late", late.saw(), "10.0.0.1")

		next := make(chan *pawl.Lease, 1)
		go func() { next <- campaign(t, b, "10.0.0.2") }()
		synctest.Wait()
		let(t, l)
		term := <-next
		if term.Token() <= l.Token() || term.Fence().Token != term.Token() {
			t.Errorf("term %v after %v", term.Fence(), l.Fence())
		}
		expect(t, "handed over", f.saw(), "10.0.0.2")
		expect(t, "handed over", g.saw(), "10.0.0.1", "10.0.0.2")

		path.Cut()
		<-term.Context().Done()
		time.Sleep(2 * ttl)
		expect(t, "the leader is gone", f.saw(), "-")
		path.Heal()

		cancel()
		<-f.ended
		<-g.ended
		if f.err != nil || g.err != nil {
			t.Errorf("ended by their context: %v, %v", f.err, g.err)
		}
		_ = watcher.Close()
		<-late.ended
		if !errors.Is(late.err, pawl.ErrClosed) {
			t.Errorf("ended by Close: %v", late.err)
		}
		for _, err := range watcher.Observe(t.Context(), "x") {
			if !errors.Is(err, pawl.ErrClosed) {
				t.Errorf("observed after Close: %v", err)
			}
		}
	})
}

// Whatever happens to connections, sessions and servers: who leads is told when
// it is another one, and only then.
func TestObserveSurvivesSessionsAndServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl})
		l := campaign(t, a, "one")
		f := follow(t.Context(), b, "x")
		expect(t, "at first", f.saw(), "one")
		for what, fault := range map[string]func(){
			"broken":            path.Break,
			"the session ended": path.EndSessions,
			"restarted":         s.Restart,
			"stopped":           func() { s.Stop(); time.Sleep(time.Second); s.Start() },
			"paused":            func() { s.Pause(); time.Sleep(time.Second); s.Continue() },
			"cut for long":      func() { path.Cut(); time.Sleep(3 * ttl); path.Heal() },
		} {
			fault()
			expect(t, what, f.saw())
			if err := l.Check(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		// What happens behind its back it learns when it is back.
		path.Cut()
		let(t, l)
		l = campaign(t, a, "two")
		expect(t, "cut", f.saw())
		path.Heal()
		expect(t, "healed", f.saw(), "two")
		path.Cut()
		let(t, l)
		time.Sleep(3 * ttl)
		s.Restart()
		path.Heal()
		expect(t, "in a new session, after a restart", f.saw(), "-")
	})
}

// Who is slow is told the latest state, and none twice in a row.
func TestSlowObserverSeesLatestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		var seen []string
		n := 0
		var led sync.WaitGroup
		for l, err := range b.Observe(t.Context(), "x") {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, string(l.Value))
			if len(l.Value) > 0 {
				l.Value[0] = '?' // is one's own
			}
			switch len(seen) {
			case 1: // nobody; a hundred terms pass, and nobody leads again
				for range 100 {
					n++
					let(t, campaign(t, a, fmt.Sprint(n)))
					tick()
				}
				led.Go(func() {
					time.Sleep(time.Second)
					_ = campaign(t, a, "last")
				})
			case 2:
				for other, err := range b.Observe(t.Context(), "x") {
					seen = append(seen, string(other.Value))
					if err != nil {
						t.Error(err)
					}
					break
				}
			}
			if len(seen) == 3 {
				break
			}
		}
		led.Wait()
		expect(t, "slowly", seen, "", "last", "last")
	})
}

// C32: a candidate's session ends at the server while it waits. It goes on as a
// candidate of its next session, and leads under that one.
func TestCandidateLeadsUnderNewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl})
		l := campaign(t, a, "a")
		next := make(chan *pawl.Lease, 1)
		go func() { next <- campaign(t, b, "b") }()
		synctest.Wait()
		path.EndSessions()
		time.Sleep(time.Second)
		if n := s.Waiting(t, "x"); n != 1 || len(next) != 0 {
			t.Fatalf("%d wait", n)
		}
		let(t, l)
		term := <-next
		if held, _ := s.Holder(t, "x"); held != term.Token() || term.Check(t.Context()) != nil || s.Sessions(t) != 2 {
			t.Error("it leads with nothing behind it")
		}
		path.EndSessions()
		<-term.Context().Done()
		if cause := context.Cause(term.Context()); !errors.Is(cause, pawl.ErrLost) {
			t.Errorf("cause %v", cause)
		}
	})
}

// C40: resigning under an ended context changes nothing.
func TestResignWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := campaign(t, a, "a")
		next := make(chan *pawl.Lease, 1)
		go func() { next <- campaign(t, b, "b") }()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Release(ended); !errors.Is(err, context.Canceled) || l.Check(t.Context()) != nil || l.Context().Err() != nil {
			t.Errorf("resigned: %v", err)
		}
		let(t, l)
		resigned := time.Now()
		<-next
		if d := time.Since(resigned); d > 100*time.Millisecond {
			t.Errorf("the next one leads after %v", d)
		}
	})
}

// C45: who never led has no term to end, and every term has one beginning and
// one end, with one token.
func TestEveryTermBeginsAndEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl})
		l := campaign(t, a, "a")
		var terms []string
		lead := func(ctx context.Context, f guard.Fence) error {
			terms = append(terms, fmt.Sprint("begin ", f.Token))
			<-ctx.Done()
			terms = append(terms, fmt.Sprint("end ", f.Token))
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		if err := b.Do(ctx, "x", lead, pawl.Value([]byte("b"))); !errors.Is(err, context.DeadlineExceeded) || len(terms) != 0 {
			t.Errorf("never led: %v, %q", err, terms)
		}
		cancel()
		let(t, l)
		var want []string
		for range 3 {
			done := make(chan error, 1)
			go func() { done <- b.Do(t.Context(), "x", lead, pawl.Value([]byte("b"))) }()
			synctest.Wait()
			tick()
			held, ok := s.Holder(t, "x")
			if !ok {
				t.Fatal("nobody leads")
			}
			want = append(want, fmt.Sprint("begin ", held), fmt.Sprint("end ", held))
			path.EndSessions()
			if err := <-done; !errors.Is(err, pawl.ErrLost) {
				t.Errorf("a lost term: %v", err)
			}
		}
		if !slices.Equal(terms, want) {
			t.Errorf("terms %q, not %q", terms, want)
		}
	})
}

// A client that begins and ends observations leaves nothing behind, here or at
// the server, where 1,000 names are the limit.
func TestObservationsDoNotLeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		for i := range 1500 {
			for range b.Observe(t.Context(), fmt.Sprint("name ", i)) {
				break
			}
		}
		var all []*follower
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1000 {
			all = append(all, follow(ctx, b, fmt.Sprint("name ", i)))
		}
		for _, f := range all {
			expect(t, "one of many", f.saw(), "-")
		}
		for _, err := range b.Observe(t.Context(), "one too many") {
			if !errors.Is(err, pawl.ErrExhausted) {
				t.Errorf("one too many: %v", err)
			}
			break
		}
		// On a new stream all of them are told at once, many with a value: more
		// than the server keeps for a slow reader.
		for i := range 400 {
			_, err := a.Acquire(t.Context(), fmt.Sprint("name ", i), pawl.Value(make([]byte, 64<<10)))
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Restart()
		if n := len(all[99].saw()); n != 1 {
			t.Errorf("told %d times", n)
		}
		for i, f := range all[:400] {
			if n := len(f.saw()); n != 1 && i != 99 {
				t.Errorf("%d: told %d times", i, n)
			}
		}
		before := kinds(b)
		for i := range 10 {
			s.Break(t, fmt.Sprint("name ", i), "", true)
			expect(t, "broken", all[i].saw(), "-")
		}
		cancel()
		for _, f := range all {
			<-f.ended
		}
		if k := kinds(b); !slices.Equal(before, []pawl.EventKind{pawl.Safe}) || len(k) != 0 {
			t.Errorf("events %v, then %v", before, k)
		}
	})
}

// C49: the server is away for less than a TTL, and for many TTLs. Of two candidates at
// most one works at any time, each one's earlier work has ended before its next begins,
// and in the end one of them leads.
func TestCampaignSurvivesOutage(t *testing.T) {
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
