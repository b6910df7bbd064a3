package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

// C05: the server hears a request and its answer is lost. The retry finds its
// earlier self: one entry in the queue, one lease.
func TestRetryAdoptsEarlierRequest(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pawltest.New(t)
			path := s.NewPath()
			a, b := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl})
			l := take(t, a, "x")
			path.DropAnswers()
			got := later(t, b, "x")
			synctest.Wait()
			if n := s.Waiting(t, "x"); n != 1 {
				t.Fatalf("%d wait while the answer is lost", n)
			}
			path.Heal()
			time.Sleep(time.Second)
			if n := s.Waiting(t, "x"); n != 1 {
				t.Fatalf("%d wait after the retry", n)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if next := <-got; next.Check(t.Context()) != nil {
				t.Error("granted, but not held")
			}
		})
	})
	t.Run("granted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pawltest.New(t)
			b := s.Dial(t, pawl.Options{TTL: ttl})
			s.DropAnswers()
			got := later(t, b, "x")
			time.Sleep(200 * time.Millisecond)
			granted, ok := s.Holder(t, "x")
			if !ok {
				t.Fatal("the request has not reached the server")
			}
			s.Heal()
			if l := <-got; l.Token() != granted {
				t.Errorf("token %d, the server granted %d", l.Token(), granted)
			}
		})
	})
	t.Run("released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pawltest.New(t)
			a := s.Dial(t, pawl.Options{TTL: ttl})
			l := take(t, a, "x")
			s.DropAnswers()
			done := make(chan error, 1)
			go func() { done <- l.Release(t.Context()) }()
			time.Sleep(200 * time.Millisecond)
			if _, held := s.Holder(t, "x"); held {
				t.Fatal("the release has not reached the server")
			}
			s.Heal()
			if err := <-done; err != nil {
				t.Errorf("released, and the retry says: %v", err)
			}
		})
	})
}

// The server is killed while one holds and others wait: all go on by
// themselves, in their order.
func TestWaitersOutliveTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		l := take(t, s.Dial(t, pawl.Options{TTL: ttl}), "x")
		const n = 5
		var queue [n]<-chan *pawl.Lease
		for i := range queue {
			queue[i] = later(t, s.Dial(t, pawl.Options{TTL: ttl}), "x")
			synctest.Wait()
		}
		s.Restart()
		time.Sleep(time.Second)
		if w := s.Waiting(t, "x"); w != n {
			t.Fatalf("%d wait after the restart", w)
		}
		for i := range queue {
			last := l.Token()
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if l = <-queue[i]; l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			}
		}
	})
}

// C14: every third answer to a renewal is lost, for five TTLs.
func TestLostRenewalAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() {
			_, err := b.Acquire(ctx, "x")
			waited <- err
		}()
		for range 5 * 2 {
			time.Sleep(ttl / 3)
			path.DropAnswers()
			time.Sleep(ttl / 6)
			path.Heal()
		}
		if err := l.Check(t.Context()); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter: %v", err)
		}
	})
}

// C15: the last lease of fifty in quick succession is renewed like any other.
func TestLeaseRenewedAfterFastReacquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		for range 50 {
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			l = take(t, a, "x")
		}
		time.Sleep(3 * ttl)
		if err := l.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if held, _ := s.Holder(t, "x"); held != l.Token() {
			t.Errorf("held under %d", held)
		}
	})
}

// C02: a release and a cancel at the very same moment. Success if and only if
// the server lists the lease; otherwise the context's error, and nothing left.
func TestCancelledOrGranted(t *testing.T) {
	const rounds = 500
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		granted := 0
		for i := range rounds {
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
			var both sync.WaitGroup
			both.Go(func() { _ = l.Release(t.Context()) })
			both.Go(func() {
				// The grant takes a few microseconds of the bubble's time.
				time.Sleep(time.Duration(i%8) * time.Microsecond / 2)
				cancel()
			})
			both.Wait()
			r := <-got
			time.Sleep(time.Millisecond)
			held, ok := s.Holder(t, "x")
			switch {
			case (r.l == nil) == (r.err == nil):
				t.Fatalf("round %d: %v, %v", i, r.l, r.err)
			case r.err != nil && !errors.Is(r.err, context.Canceled):
				t.Fatalf("round %d: %v", i, r.err)
			case r.err != nil && (ok || s.Waiting(t, "x") != 0):
				t.Fatalf("round %d: cancelled, and held under %d", i, held)
			case r.err == nil && held != r.l.Token():
				t.Fatalf("round %d: granted %d, held under %d", i, r.l.Token(), held)
			case r.err == nil:
				granted++
				if err := r.l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if granted == 0 || granted == rounds {
			t.Errorf("%d of %d were granted: no race was run", granted, rounds)
		}
	})
}

// C17: releases and cancels from another goroutine leave nothing behind.
func TestAbandonedInEveryWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		var all sync.WaitGroup
		for i := range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				if l, err := a.Acquire(ctx, fmt.Sprint("x", i%7)); err == nil {
					_ = l.Release(t.Context())
				}
			})
			all.Go(func() {
				time.Sleep(time.Duration(i%50) * time.Microsecond)
				cancel()
			})
		}
		all.Wait()
		start := time.Now()
		for i := range 7 {
			take(t, b, fmt.Sprint("x", i))
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("the next one waited %v", d)
		}
		if n := s.Sessions(t); n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// C06, C07, C09: tries and waits that fail, in a partition too, leave nothing.
// The bubble fails when a goroutine is left.
func TestFailedAcquiresLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b, c := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		for i := range 1000 {
			var err error
			switch i % 4 {
			case 0:
				_, err = b.TryAcquire(t.Context(), "x")
			case 1:
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				_, err = b.Acquire(ctx, "x")
				cancel()
			case 2:
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err = b.Acquire(ctx, "x")
			default:
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				path.Cut()
				_, err = b.TryAcquire(ctx, "x")
				cancel()
				path.Heal()
			}
			if err == nil {
				t.Fatalf("attempt %d succeeded", i)
			}
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		next := take(t, c, "x")
		if d := time.Since(start); d > time.Second {
			t.Errorf("the next one waited %v", d)
		}
		if held, _ := s.Holder(t, "x"); held != next.Token() {
			t.Errorf("held under %d", held)
		}
		if n := s.Sessions(t); n != 3 {
			t.Errorf("%d sessions", n)
		}
	})
}

// Many callers of one client, and one name: mutual exclusion within a process.
func TestOneClientManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		var all sync.WaitGroup
		inside, most := 0, 0
		var mu sync.Mutex
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			inside += d
			most = max(most, inside)
		}
		for range 64 {
			all.Go(func() {
				l, err := a.Acquire(t.Context(), "x")
				if err != nil {
					t.Error(err)
					return
				}
				count(1)
				time.Sleep(10 * time.Millisecond)
				count(-1)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 1 {
			t.Errorf("%d at once", most)
		}
	})
}
