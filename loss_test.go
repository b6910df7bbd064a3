package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

const ttl = 3 * time.Second

// take acquires or fails the test.
func take(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// later acquires in the background, until the test ends.
func later(t *testing.T, c *pawl.Client, name string, options ...pawl.AcquireOption) <-chan *pawl.Lease {
	got := make(chan *pawl.Lease, 1)
	go func() {
		l, err := c.Acquire(t.Context(), name, options...)
		if err != nil && t.Context().Err() == nil {
			t.Errorf("acquire %q: %v", name, err)
		}
		got <- l
	}()
	return got
}

// kinds drains the events that have come so far.
func kinds(c *pawl.Client) []pawl.EventKind {
	synctest.Wait()
	var all []pawl.EventKind
	for {
		select {
		case e, open := <-c.Events():
			if !open {
				return all
			}
			all = append(all, e.Kind)
		default:
			return all
		}
	}
}

// C11, C13, C48: in total silence the holder's own clock shows first that the lease is
// in danger, then that it is lost, before the next holder is granted. C38, C42, C55:
// what the old holder does afterwards changes nothing.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a := path.Dial(t, pawl.Options{TTL: ttl})
		b := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		got := later(t, b, "x")
		time.Sleep(2 * ttl)

		cut := time.Now()
		path.Cut()
		<-l.Context().Done()
		if d := time.Since(cut); d > ttl || d < ttl*3/4 {
			t.Errorf("lost after %v of silence", d)
		}
		if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		if l.Remaining() != 0 {
			t.Errorf("%v remain", l.Remaining())
		}
		if held, _ := s.Holder(t, "x"); held != l.Token() {
			t.Error("the server granted it to somebody else before the holder knew")
		}
		if k := kinds(a); !slices.Equal(k, []pawl.EventKind{pawl.Safe, pawl.Jeopardy, pawl.Lost}) {
			t.Errorf("events %v", k)
		}
		next := <-got
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		if d := time.Since(cut); d > ttl+time.Second {
			t.Errorf("handed over after %v", d)
		}

		path.Heal()
		time.Sleep(ttl)
		if err := l.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("a late release: %v", err)
		}
		if err := l.Check(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("a late check: %v", err)
		}
		if held, _ := s.Holder(t, "x"); held != next.Token() {
			t.Error("the late release released somebody else's lease")
		}
		if _, err := a.TryAcquire(t.Context(), "x"); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a new try: %v", err)
		}
		// C29: the name can be acquired again, under a higher token.
		if err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := take(t, a, "x"); again.Token() <= next.Token() {
			t.Errorf("token %d after %d", again.Token(), next.Token())
		}
	})
}

// The connection breaks as a whole, again and again, and nothing is lost.
func TestLostConnectionKeepsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		for range 20 {
			s.Path.Break()
			time.Sleep(ttl / 5)
		}
		if err := l.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if held, _ := s.Holder(t, "x"); held != l.Token() || s.Sessions(t) != 1 {
			t.Errorf("held under %d, %d sessions", held, s.Sessions(t))
		}
		if k := kinds(a); slices.Contains(k, pawl.Lost) {
			t.Errorf("events %v", k)
		}
	})
}

// With a TTL so long that renewals are hours apart, a dead connection is found
// out all the same.
func TestSilenceUnderALongTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: 24 * time.Hour})
		l := take(t, a, "x")
		time.Sleep(time.Hour)
		s.Path.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Acquire(ctx, "y"); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("after a minute of silence: %v", err)
		}
		s.Path.Heal()
		take(t, a, "y")
		if l.Context().Err() != nil {
			t.Error("the lease was lost")
		}
	})
}

// A partition shorter than the trusted time: danger, then safety again.
func TestJeopardyEndsAfterShortPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		s.Path.Cut()
		time.Sleep(ttl * 2 / 3)
		s.Path.Heal()
		time.Sleep(ttl)
		if k := kinds(a); !slices.Equal(k, []pawl.EventKind{pawl.Safe, pawl.Jeopardy, pawl.Safe}) {
			t.Errorf("events %v", k)
		}
		if l.Context().Err() != nil {
			t.Error("the lease was lost")
		}
	})
}

// C20, C21: a server that stood still or was down does not count that time
// against its clients, and a holder past its own deadline has said so.
func TestServerPausedAndRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		for range 3 {
			s.Crash()
			time.Sleep(ttl / 2)
			s.Start()
			time.Sleep(ttl)
		}
		if err := l.Check(t.Context()); err != nil {
			t.Fatalf("after restarts: %v", err)
		}
		if held, _ := s.Holder(t, "x"); held != l.Token() {
			t.Errorf("held under %d", held)
		}

		s.Pause()
		time.Sleep(2 * ttl)
		if !errors.Is(context.Cause(l.Context()), pawl.ErrLost) {
			t.Errorf("paused for two TTLs, the lease is %v", context.Cause(l.Context()))
		}
		s.Continue()
		next := take(t, a, "x")
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
}

// C47: a partition that heals just about when the lease ends, two candidates:
// never two holders on the common time line, a new token for each term.
func TestHealedAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		paths := []*pawltest.Path{s.NewPath(), s.NewPath()}
		clients := []*pawl.Client{paths[0].Dial(t, pawl.Options{TTL: ttl}), paths[1].Dial(t, pawl.Options{TTL: ttl})}
		holder, l := 0, take(t, clients[0], "x")
		for i := range 50 {
			other := 1 - holder
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan *pawl.Lease, 1)
			go func() {
				l, _ := clients[other].Acquire(ctx, "x")
				got <- l
			}()
			synctest.Wait()
			paths[holder].Cut()
			time.Sleep(ttl - 200*time.Millisecond + time.Duration(i)*8*time.Millisecond)
			paths[holder].Heal()
			time.Sleep(ttl)
			synctest.Wait()
			cancel()
			next := <-got
			switch {
			case next != nil && l.Context().Err() == nil:
				t.Fatalf("round %d: two holders, %d and %d", i, l.Token(), next.Token())
			case next != nil && next.Token() <= l.Token():
				t.Fatalf("round %d: token %d after %d", i, next.Token(), l.Token())
			case next != nil:
				holder, l = other, next
			case l.Context().Err() != nil:
				l = take(t, clients[holder], "x")
			}
		}
	})
}

// C32: a waiter whose session ended is never granted under it; it goes on in a
// new session, at the end of the queue.
func TestWaiterRejoinsQueueInNewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b, c := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		fromB := later(t, b, "x")
		synctest.Wait()
		fromC := later(t, c, "x")
		time.Sleep(time.Second)
		path.EndSessions()
		time.Sleep(time.Second)
		if n := s.Waiting(t, "x"); n != 2 {
			t.Errorf("%d wait", n)
		}
		if k := kinds(b); !slices.Equal(k, []pawl.EventKind{pawl.Safe, pawl.Lost, pawl.Safe}) {
			t.Errorf("events %v", k)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := <-fromC
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-fromB
		if err := second.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if held, _ := s.Holder(t, "x"); held != second.Token() {
			t.Errorf("held under %d, granted %d", held, second.Token())
		}
	})
}

// A holder whose session an operator ended is told at once.
func TestHolderLearnsOfEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		start := time.Now()
		s.EndSessions()
		<-l.Context().Done()
		if d := time.Since(start); d > time.Second || !errors.Is(context.Cause(l.Context()), pawl.ErrLost) {
			t.Errorf("after %v: %v", d, context.Cause(l.Context()))
		}
		if again := take(t, a, "x"); again.Token() <= l.Token() {
			t.Errorf("token %d after %d", again.Token(), l.Token())
		}
	})
}

// The store loses what it had acknowledged. Tokens go on above all that a
// connected client has seen, and the client is told.
func TestStoreRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		rollBack := s.Save()
		l := take(t, a, "x")
		time.Sleep(time.Second)
		rollBack()
		<-l.Context().Done()
		next := take(t, a, "x")
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		if k := kinds(a); !slices.Contains(k, pawl.StoreRolledBack) {
			t.Errorf("events %v", k)
		}
	})
}

// C54: the server is killed at the moment when the answer to an acquire arrives.
// What was answered is held by the same token afterwards, and by nobody else.
func TestClientKilledWhenAnswerArrives(t *testing.T) {
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
