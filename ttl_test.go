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

func setTTL(t *testing.T, c *pawl.Client, d time.Duration) {
	t.Helper()
	if err := c.SetTTL(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// A higher TTL holds as soon as it is confirmed, over a restart of the server.
func TestRaiseTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, a, "x")
		got := later(t, b, "x")
		setTTL(t, a, 10*ttl)
		if left := l.Remaining(); left < 9*ttl {
			t.Errorf("%v are left of %v", left, 10*ttl)
		}
		path.Cut()
		s.Restart()
		time.Sleep(9 * ttl)
		if err := l.Context().Err(); err != nil || len(got) > 0 {
			t.Errorf("after %v: %v, %d granted", 9*ttl, err, len(got))
		}
		next := <-got
		if err := context.Cause(l.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("token %d is granted, and token %d is still trusted: %v", next.Token(), l.Token(), err)
		}
		path.Heal()
		// The session that comes next has it as well.
		last := later(t, a, "x")
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if left := (<-last).Remaining(); left < 9*ttl {
			t.Errorf("%v are left in the next session", left)
		}
	})
}

// A lower TTL counts for its holder at once, and for others when what was
// promised has run out.
func TestLowerTTL(t *testing.T) {
	const long = 20 * ttl
	for name, c := range map[string]struct {
		lives    time.Duration
		from, to time.Duration
		restart  bool
	}{
		"dies at once: others wait as long as was promised":         {0, long - ttl, long + time.Second, false},
		"lives on: others wait no longer than the lower TTL":        {long + ttl, ttl - time.Second, ttl + time.Second, false},
		"lives on, and the server restarts":                         {long + ttl, ttl - time.Second, ttl + time.Second, true},
		"the server restarts before: what was promised holds again": {0, long - ttl, long + time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				path := s.NewPath()
				a, b := path.Dial(t, pawl.Options{TTL: long}), s.Dial(t, pawl.Options{TTL: ttl})
				l := take(t, a, "x")
				got := later(t, b, "x")
				setTTL(t, a, ttl)
				if left := l.Remaining(); left > ttl {
					t.Errorf("%v are left of %v", left, ttl)
				}
				time.Sleep(c.lives)
				if err := l.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				path.Cut()
				if c.restart {
					s.Restart()
				}
				start := time.Now()
				<-l.Context().Done()
				if held := time.Since(start); held > ttl {
					t.Errorf("trusted for %v more", held)
				}
				<-got
				if waited := time.Since(start); waited < c.from || waited > c.to {
					t.Errorf("granted after %v; %v to %v was expected", waited, c.from, c.to)
				}
			})
		})
	}
}

func TestSetTTLErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		c := s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, c, "x")
		for _, d := range []time.Duration{-1, 0, time.Second - 1, 24*time.Hour + 1} {
			if err := c.SetTTL(t.Context(), d); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%v: %v", d, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.SetTTL(ended, 2*ttl); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}

		// Nobody answers: nothing is gained, and the client goes on asking.
		s.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := c.SetTTL(ctx, 10*ttl); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a server: %v", err)
		}
		if left := l.Remaining(); left > ttl {
			t.Errorf("%v are left of %v", left, ttl)
		}
		s.Heal()
		time.Sleep(ttl)
		if left := l.Remaining(); left < 7*ttl {
			t.Errorf("%v are left, long after the server can be reached", left)
		}

		one := make(chan error, 1)
		s.DropAnswers()
		go func() { one <- c.SetTTL(t.Context(), 4*ttl) }()
		synctest.Wait()
		go func() { _ = c.SetTTL(t.Context(), 5*ttl) }()
		if err := <-one; !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("another call came after: %v", err)
		}
		s.Heal()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.SetTTL(t.Context(), ttl); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
