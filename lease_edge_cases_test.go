package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/pawltest"
)

// C03: a waiter's connection breaks while its session lives on. While it is away it is
// passed over: the waiter behind it is granted at once. When it is back it waits again
// in its place, and leaves the queue when it gives up.
func TestBrokenWaiterBlocksNoOther(t *testing.T) {
	const ttl = time.Minute
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b, c := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		for round := range 3 {
			l := take(t, a, "x")
			ctx, cancel := context.WithCancel(t.Context())
			type result struct {
				l   *pawl.Lease
				err error
			}
			got := make(chan result, 1)
			go func() {
				l, err := b.Acquire(ctx, "x")
				got <- result{l, err}
			}()
			synctest.Wait()
			fromC := later(t, c, "x")
			synctest.Wait()
			if n := s.Waiting(t, "x"); n != 2 {
				t.Fatalf("round %d: %d wait", round, n)
			}
			path.Break()
			path.Cut() // no way back for now
			time.Sleep(time.Second)
			begun := time.Now()
			let(t, l)
			next := <-fromC
			if d := time.Since(begun); d > time.Second {
				t.Errorf("round %d: who stood behind was served after %v", round, d)
			}
			if n := s.Sessions(t); n != 3 {
				t.Errorf("round %d: %d sessions; nobody's has ended", round, n)
			}
			if round == 2 {
				// Given up while it is away: nothing is left of it afterwards.
				cancel()
				if r := <-got; !errors.Is(r.err, context.Canceled) {
					t.Errorf("given up: %v, %v", r.l, r.err)
				}
				path.Heal()
				time.Sleep(5 * time.Second)
				if n := s.Waiting(t, "x"); n != 0 {
					t.Errorf("%d wait", n)
				}
				let(t, next)
				let(t, take(t, a, "x"))
				return
			}
			path.Heal()
			time.Sleep(5 * time.Second)
			if n := s.Waiting(t, "x"); n != 1 {
				t.Errorf("round %d: %d wait after it came back", round, n)
			}
			let(t, next)
			r := <-got
			if r.err != nil || r.l.Token() <= next.Token() {
				t.Fatalf("round %d: it was told %v", round, r.err)
			}
			let(t, r.l)
			cancel()
		}
	})
}

// C75: the store is restored from a copy made before fifty grants, and the resource has
// seen the token of the last. The next client has seen none of them and gets a token
// that the resource accepts. The lost lease is void: its holder learns of it, and its
// token is refused.
func TestTokensRiseAfterStoreIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		var seen guard.State
		write := func(l *pawl.Lease) guard.Verdict {
			f := l.Fence()
			next, verdict := guard.Decide(guard.Monotonic, seen, guard.Mark{Token: f.Token, Cell: f.Cell})
			seen = next
			return verdict
		}
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		before := take(t, b, "kept")
		putBack := s.Save()
		var highest guard.Token
		for range 50 {
			l := take(t, a, "x")
			highest = l.Token()
			if v := write(l); v != guard.Advance {
				t.Fatalf("a write under %d: %v", highest, v)
			}
			let(t, l)
		}
		after := take(t, a, "since")
		held := take(t, a, "x")
		highest = held.Token()
		write(held)
		// Those who saw the tokens are away, so nobody can tell the server of them.
		path.Cut()
		putBack()
		late, early := make(chan *pawl.Lease, 1), s.Dial(t, pawl.Options{TTL: ttl})
		go func() { late <- take(t, early, "x") }()
		l := <-late
		if l.Token() <= highest {
			t.Errorf("token %d after %d had been granted", l.Token(), highest)
		}
		if v := write(l); v != guard.Advance {
			t.Errorf("the resource says %v to the next holder", v)
		}
		if v := write(held); v != guard.Stale {
			t.Errorf("the resource says %v to the one before", v)
		}
		path.Heal()
		for _, void := range []*pawl.Lease{held, after} {
			<-void.Context().Done()
			if cause := context.Cause(void.Context()); !errors.Is(cause, pawl.ErrLost) {
				t.Errorf("%s is void: %v", void.Name(), cause)
			}
		}
		if err := before.Check(t.Context()); err != nil {
			t.Errorf("what the copy has, and its holder still had: %v", err)
		}
		if again := take(t, a, "since"); again.Token() <= l.Token() {
			t.Errorf("token %d after %d", again.Token(), l.Token())
		}
	})
}

// slow is a network whose every way takes as long as was drawn for it, in order.
type slow struct {
	inner func(context.Context, string) (net.Conn, error)
	mu    sync.Mutex
	rng   *rand.Rand
	count int
}

// draw is half of a round trip: 20 ms, one in a thousand 4 s.
func (s *slow) draw() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if s.rng.IntN(1000) == 0 || s.count%150 == 149 {
		return 2 * time.Second
	}
	return 5*time.Millisecond + time.Duration(s.rng.IntN(int(10*time.Millisecond)))
}

// drawn is how many ways there were.
func (s *slow) drawn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *slow) dial(ctx context.Context, server string) (net.Conn, error) {
	c, err := s.inner(ctx, server)
	if err != nil {
		return nil, err
	}
	w := &slowConn{Conn: c, of: s, queue: make(chan []byte, 1024), closed: make(chan struct{})}
	go w.pass()
	return w, nil
}

type slowConn struct {
	net.Conn
	of     *slow
	queue  chan []byte
	once   sync.Once
	closed chan struct{}
}

func (c *slowConn) Write(b []byte) (int, error) {
	select {
	case c.queue <- append([]byte{}, b...):
		return len(b), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *slowConn) pass() {
	for {
		select {
		case b := <-c.queue:
			way := time.NewTimer(2 * c.of.draw())
			select {
			case <-way.C:
			case <-c.closed:
				way.Stop()
				return
			}
			if _, err := c.Conn.Write(b); err != nil {
				return
			}
		case <-c.closed:
			return
		}
	}
}

func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// C30: the network's median is 20 ms and its slowest answers take 4 s, and the server
// stops for 6 s now and then. The default TTL leaves room for several attempts: no
// lease is lost in twenty minutes.
func TestDefaultTTLSurvivesSlowNetwork(t *testing.T) {
	for n := range uint64(*reps) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				ctx := s.NewPath().Context(context.Background())
				parts := hook.From(ctx)
				net := &slow{inner: parts.Dial, rng: rand.New(rand.NewPCG(n, 30))}
				parts.Dial = net.dial
				a, err := pawl.Dial(hook.With(ctx, parts), s.Servers(), pawl.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				l := take(t, a, "x")
				got := later(t, s.Dial(t, pawl.Options{}), "x")
				for range 20 {
					time.Sleep(54 * time.Second)
					s.Pause()
					time.Sleep(6 * time.Second)
					s.Continue()
				}
				if cause := context.Cause(l.Context()); cause != nil {
					t.Fatalf("the lease: %v", cause)
				}
				if len(got) != 0 {
					t.Fatal("somebody else holds it")
				}
				if n := net.drawn(); n < 150 {
					t.Errorf("%d messages: nothing was tried", n)
				}
				let(t, l)
				let(t, <-got)
			})
		})
	}
}
