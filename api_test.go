package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// C40: a release whose context had ended changes nothing.
func TestReleaseWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		got := later(t, b, "x")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Release(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("release: %v", err)
		}
		time.Sleep(2 * ttl)
		if err := l.Check(t.Context()); err != nil || l.Context().Err() != nil {
			t.Errorf("no longer held: %v, %v", err, l.Context().Err())
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := (<-got).Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Check(t.Context()); !errors.Is(err, pawl.ErrReleased) {
			t.Errorf("check after release: %v", err)
		}
		if !errors.Is(context.Cause(l.Context()), pawl.ErrReleased) {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
	})
}

// A release without a server returns at the lease's local deadline.
func TestReleaseUnderSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		s.Cut()
		deadline := time.Now().Add(l.Remaining())
		err := l.Release(context.Background())
		if err == nil || time.Now().After(deadline) {
			t.Errorf("%v, %v after the deadline", err, time.Since(deadline))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := l.Release(ctx); err == nil {
			t.Error("released by nobody")
		}
	})
}

// C44: cancel the work, wait for it, release: in this order.
func TestDoWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		ctx, cancel := context.WithCancel(t.Context())
		var stopped time.Time
		done := make(chan error, 1)
		go func() {
			done <- a.Do(ctx, "x", func(ctx context.Context, f guard.Fence) error {
				if f.Token == 0 || f.Resource != "x" || f.Cell == "" {
					t.Errorf("fence %v", f)
				}
				<-ctx.Done()
				time.Sleep(2 * ttl) // slow to stop, and renewed all the while
				stopped = time.Now()
				return ctx.Err()
			})
		}()
		synctest.Wait()
		got := later(t, b, "x")
		time.Sleep(time.Second)
		cancel()
		<-got
		if stopped.IsZero() {
			t.Error("the next one began before the work had ended")
		}
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("do: %v", err)
		}
	})
}

// The lease is lost under the work: the work is told, waited for, and the
// error says so even when the work is content.
func TestDoLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		err := a.Do(t.Context(), "x", func(ctx context.Context, _ guard.Fence) error {
			s.Cut()
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), pawl.ErrLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, pawl.ErrLost) {
			t.Errorf("do: %v", err)
		}
		s.Heal()
	})
}

func TestDoReleasesUnderAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = a.Do(t.Context(), "x", func(context.Context, guard.Fence) error { panic("work") })
		}()
		if _, held := s.Holder(t, "x"); held {
			t.Error("still held")
		}
	})
}

// slowGuard takes its time to be claimed.
type slowGuard struct {
	wait    func()
	fail    []error
	claimed []guard.Fence
}

func (g *slowGuard) Claim(_ context.Context, f guard.Fence) error {
	if g.wait != nil {
		g.wait()
	}
	g.claimed = append(g.claimed, f)
	if len(g.fail) > 0 {
		err := g.fail[0]
		g.fail = g.fail[1:]
		return err
	}
	return nil
}

// C91: most of the lease is gone when the work could begin. It begins when the
// server has been asked, or not at all.
func TestDoBeginsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		busy := &slowGuard{wait: func() {
			s.Cut()
			time.Sleep(ttl * 7 / 10)
			s.Heal()
		}}
		began := false
		err := a.Do(t.Context(), "x", func(ctx context.Context, _ guard.Fence) error {
			began = true
			return ctx.Err()
		}, pawl.Claim(busy))
		if err != nil || !began {
			t.Errorf("do: %v", err)
		}

		gone := &slowGuard{wait: func() { s.Cut() }}
		gone.wait = func() {
			s.Cut()
			time.Sleep(ttl * 7 / 10)
		}
		err = a.Do(t.Context(), "y", func(context.Context, guard.Fence) error {
			t.Error("the work began without a word from the server")
			return nil
		}, pawl.Claim(gone))
		if !errors.Is(err, pawl.ErrLost) {
			t.Errorf("do: %v", err)
		}
		s.Heal()
	})
}

func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		g, h := &slowGuard{fail: []error{guard.ErrUnknown}}, &slowGuard{}
		l, err := a.Acquire(t.Context(), "x", pawl.Claim(g), pawl.Claim(h))
		if err != nil {
			t.Fatal(err)
		}
		if len(g.claimed) != 2 || len(h.claimed) != 1 || h.claimed[0].Token != l.Token() {
			t.Errorf("claimed %v and %v", g.claimed, h.claimed)
		}
		if f := l.Fence(); f.Token != l.Fence("x").Token || f.Token != l.Token() || f.Validate() != nil || l.Fence("y").Token != 0 {
			t.Errorf("fences %v %v %v", f, l.Fence("x"), l.Fence("y"))
		}
		stale := &slowGuard{fail: []error{guard.ErrStale}}
		if _, err := a.Acquire(t.Context(), "y", pawl.Claim(stale, h)); !errors.Is(err, guard.ErrStale) {
			t.Errorf("a stale claim: %v", err)
		}
		if _, held := s.Holder(t, "y"); held || len(h.claimed) != 1 {
			t.Error("after a failed claim the lease is held, or the next guard was claimed")
		}
	})
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		s.Break(t, "x", "maintenance", false)
		<-l.Context().Done()
		if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrBroken) || !strings.Contains(cause.Error(), "asked to let go: maintenance") {
			t.Errorf("cause %v", cause)
		}
		time.Sleep(2 * ttl)
		if held, _ := s.Holder(t, "x"); held != l.Token() || l.Remaining() == 0 {
			t.Error("the lease ended before its holder let go")
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}

		l = take(t, a, "x")
		s.Break(t, "x", "now", true)
		<-l.Context().Done()
		if _, held := s.Holder(t, "x"); held {
			t.Error("still held")
		}
		if err := l.Release(t.Context()); !errors.Is(err, pawl.ErrBroken) {
			t.Errorf("release: %v", err)
		}

		// The word of a forced break is lost with the connection.
		l = take(t, a, "x")
		s.DropAnswers()
		s.Break(t, "x", "now", true)
		synctest.Wait()
		s.Heal()
		<-l.Context().Done()
		if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
			t.Errorf("cause %v", cause)
		}
	})
}

// C04: with no server, giving up and closing take no time to speak of.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), path.Dial(t, pawl.Options{TTL: ttl})
		take(t, a, "x")
		l := take(t, b, "y")
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := b.Acquire(ctx, "x")
			failed <- err
		}()
		synctest.Wait()
		path.Cut()
		start := time.Now()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := b.Close(); !errors.Is(err, pawl.ErrUnavailable) || time.Since(start) > time.Second {
			t.Errorf("close: %v after %v", err, time.Since(start))
		}
		if l.Context().Err() == nil {
			t.Error("a lease outlived its client")
		}
		if err := b.Close(); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("closed twice: %v", err)
		}
		if _, err := b.Acquire(t.Context(), "z"); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("acquire after close: %v", err)
		}
		if _, open := <-b.Events(); open {
			for range b.Events() {
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		// The one that was cut off still stood in the queue, until its TTL.
		time.Sleep(2 * ttl)
		if _, held := s.Holder(t, "x"); held || s.Sessions(t) != 0 {
			t.Error("a closed client holds a lease")
		}
	})
}

func TestTryAcquireWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		s.Stop()
		start := time.Now()
		_, err := a.TryAcquire(t.Context(), "x")
		if d := time.Since(start); !errors.Is(err, pawl.ErrUnavailable) || d > ttl*3/2 {
			t.Errorf("%v after %v", err, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = a.Acquire(ctx, "x")
		if !errors.Is(err, pawl.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: %v", err)
		}
		s.Start()
		take(t, a, "x")
	})
}

func TestDialErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		reach := s.Context(t.Context())
		for _, c := range []struct {
			servers []string
			o       pawl.Options
		}{
			{nil, pawl.Options{}},
			{s.Servers(), pawl.Options{TTL: time.Millisecond}},
			{s.Servers(), pawl.Options{TTL: 25 * time.Hour}},
			{s.Servers(), pawl.Options{Label: string(make([]byte, 257))}},
			{s.Servers(), pawl.Options{Label: "\xff"}},
		} {
			if c, err := pawl.Dial(reach, c.servers, c.o); c != nil || !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("dial: %v, %v", c, err)
			}
		}
		a := s.Dial(t, pawl.Options{})
		for _, name := range []string{"", "a\nb", string(make([]byte, 513)), "\xff"} {
			if _, err := a.Acquire(t.Context(), name); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("name %q: %v", name, err)
			}
		}
		s.Stop()
		start := time.Now()
		if _, err := pawl.Dial(reach, s.Servers(), pawl.Options{}); !errors.Is(err, pawl.ErrUnavailable) || time.Since(start) != 15*time.Second {
			t.Errorf("no server: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(reach, time.Second)
		defer cancel()
		if _, err := pawl.Dial(ctx, s.Servers(), pawl.Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no server: %v", err)
		}
		s.Start()
	})
}
