package pawl_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/pawltest"
)

// The process is frozen until behind its deadline, and the work returns
// when it goes on, before anything else of the process has run.
func TestDoReturnsAsItsProcessWakes(t *testing.T) {
	own := errors.New("the work's own")
	for name, c := range map[string]struct {
		cut  bool
		work error
	}{
		"nil":                         {},
		"the work's error":            {work: own},
		"no server for the release":   {cut: true},
		"no server, the work's error": {cut: true, work: own},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				k := &askew{}
				a := dialBy(t, s.Path, k, pawl.Options{TTL: ttl})
				err := a.Do(t.Context(), "x", func(context.Context, guard.Fence) error {
					if c.cut {
						s.Cut()
					}
					k.suspend(2 * ttl)
					return c.work
				})
				if !errors.Is(err, pawl.ErrLost) || c.work != nil && !errors.Is(err, c.work) {
					t.Fatalf("do: %v", err)
				}
				if n := strings.Count(err.Error(), pawl.ErrLost.Error()); n != 1 {
					t.Errorf("the loss is told %d times: %v", n, err)
				}
				s.Heal()
			})
		})
	}
}

// The work has ended in time. What happens to the lease while it is released is
// no failure of the work.
func TestDoEndsBeforeItsLease(t *testing.T) {
	for name, during := range map[string]func(*pawltest.Server, *askew, *pawl.Client){
		"no server answers":                     func(*pawltest.Server, *askew, *pawl.Client) {},
		"the deadline passes under the release": func(_ *pawltest.Server, k *askew, _ *pawl.Client) { k.suspend(2 * ttl) },
		"the client is closed":                  func(_ *pawltest.Server, _ *askew, a *pawl.Client) { _ = a.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				k := &askew{}
				a := dialBy(t, s.Path, k, pawl.Options{TTL: ttl})
				worked, done := make(chan struct{}), make(chan error, 1)
				go func() {
					done <- a.Do(t.Context(), "x", func(context.Context, guard.Fence) error {
						s.Cut()
						close(worked)
						return nil
					})
				}()
				<-worked
				synctest.Wait() // the release is under way
				during(s, k, a)
				if err := <-done; err != nil {
					t.Errorf("do: %v", err)
				}
				s.Heal()
			})
		})
	}
}

// The lease ends at the server, and the work returns before the notice is there:
// the answer to the release says so.
func TestDoHearsOfTheEndByItsRelease(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*testing.T, *pawltest.Server)
		want error
	}{
		"broken by force":   {func(t *testing.T, s *pawltest.Server) { s.Break(t, "x", "now", true) }, pawl.ErrBroken},
		"the session ended": {func(_ *testing.T, s *pawltest.Server) { s.EndSessions() }, pawl.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				a := s.Dial(t, pawl.Options{TTL: ttl})
				err := a.Do(t.Context(), "x", func(context.Context, guard.Fence) error {
					c.end(t, s)
					return nil
				})
				if !errors.Is(err, c.want) {
					t.Errorf("do: %v", err)
				}
			})
		})
	}
}

// Its holder was asked to let go, and then the deadline passed: both are told.
func TestDoIsAskedToLetGoAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		k := &askew{}
		a := dialBy(t, s.Path, k, pawl.Options{TTL: ttl})
		err := a.Do(t.Context(), "x", func(ctx context.Context, _ guard.Fence) error {
			s.Break(t, "x", "please", false)
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, pawl.ErrBroken) || errors.Is(err, pawl.ErrLost) {
			t.Errorf("asked to let go: %v", err)
		}
		err = a.Do(t.Context(), "x", func(ctx context.Context, _ guard.Fence) error {
			s.Break(t, "x", "please", false)
			<-ctx.Done()
			k.suspend(2 * ttl)
			return nil
		})
		if !errors.Is(err, pawl.ErrBroken) || !errors.Is(err, pawl.ErrLost) {
			t.Errorf("asked to let go, and lost: %v", err)
		}
	})
}

// The client is closed under the work: that the work ended in time is not known.
func TestDoUnderAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		err := a.Do(t.Context(), "x", func(context.Context, guard.Fence) error { return a.Close() })
		if !errors.Is(err, pawl.ErrReleased) || errors.Is(err, pawl.ErrLost) {
			t.Errorf("do: %v", err)
		}
	})
}

// The deadline passes while the last guard is claimed, and the process goes on
// before anything else of it has run.
func TestAcquireReturnsAsItsProcessWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		k := &askew{}
		a := dialBy(t, s.Path, k, pawl.Options{TTL: ttl})
		g := &slowGuard{wait: func() { k.suspend(2 * ttl) }}
		if l, err := a.Acquire(t.Context(), "x", pawl.Claim(g)); l != nil || !errors.Is(err, pawl.ErrLost) {
			t.Errorf("acquire: %v", err)
		}
		if len(g.claimed) != 1 {
			t.Errorf("claimed with %v", g.claimed)
		}
		// Nothing is left of it.
		take(t, a, "x")
	})
}

// frozen is a clock that jumps when a function reads it: the process was frozen
// in there.
type frozen struct {
	clock.Clock
	in string
	by time.Duration
}

func (f *frozen) Now() clock.Reading {
	r := f.Clock.Now()
	pcs := make([]uintptr, 32)
	for frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)]); ; {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, f.in) {
			r.Boot += f.by
		}
		if !more {
			return r
		}
	}
}

// The server's answer to a check was there in time, and is read behind the
// deadline.
func TestCheckReturnsAsItsProcessWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		ctx := s.Context(t.Context())
		parts := hook.From(ctx)
		parts.Clock = &frozen{parts.Clock, ".(*Lease).Check", 2 * ttl}
		a, err := pawl.Dial(hook.With(ctx, parts), s.Servers(), pawl.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		if err := take(t, a, "x").Check(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("check: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}
