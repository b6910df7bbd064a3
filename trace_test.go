package pawl_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/pawltest"
)

// tracedClient is a client whose acquires are traced.
type tracedClient struct {
	*pawl.Client
	mu  sync.Mutex
	all []hook.Trace
}

func tracing(t *testing.T, p *pawltest.Path) *tracedClient {
	t.Helper()
	f := &tracedClient{}
	ctx := p.Context(context.Background())
	parts := hook.From(ctx)
	parts.Traced = func(x hook.Trace) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = append(f.all, x)
	}
	c, err := pawl.Dial(hook.With(ctx, parts), p.Servers(), pawl.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f.Client = c
	return f
}

func (f *tracedClient) traces() []hook.Trace {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

// whole fails unless every station of a trace is there and in order.
func whole(t *testing.T, x hook.Trace) {
	t.Helper()
	last := x.Asked
	for i, at := range []clock.Reading{x.Asked, x.Taken, x.Sent, x.Received, x.Handed} {
		if at == (clock.Reading{}) || at.Raw < last.Raw {
			t.Errorf("the client's station %d is out of order: %+v", i, x)
		}
		last = at
	}
	s := x.Server
	if s == nil {
		t.Fatalf("the server told nothing: %+v", x)
	}
	stations := []int64{
		s.QueuedNano, s.TakenNano, s.DecidedNano, s.ClosedNano, s.AppendingNano, s.LandedNano, s.FinalNano, s.SentNano,
	}
	var before int64
	for i, at := range stations {
		if at < before {
			t.Errorf("the server's station %d is out of order: %v", i, s)
		}
		before = at
	}
	if s.TakenNano == 0 || s.LandedNano == 0 {
		t.Errorf("a station is missing: %v", s)
	}
	if away := x.Received.Longer(x.Sent); time.Duration(s.SentNano) > away {
		t.Errorf("the server counts %v of %v that the client waited", time.Duration(s.SentNano), away)
	}
}

func TestTrace(t *testing.T) {
	s := pawltest.New(t)
	c := tracing(t, s.Path)
	for range 3 {
		if err := take(t, c.Client, "n").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all := c.traces()
	if len(all) != 3 {
		t.Fatalf("%d traces of three acquires", len(all))
	}
	for _, x := range all {
		whole(t, x)
	}
}

// A trace tells of leases alone, and of the last time that the server was asked.
func TestTraceOfAWaitOverALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		first := take(t, s.Dial(t, pawl.Options{TTL: ttl}), "n")
		c := tracing(t, s.NewPath())
		if _, err := c.TryAcquire(t.Context(), "n"); !errors.Is(err, pawl.ErrHeld) {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Acquire(short, "n"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		got := later(t, c.Client, "n")
		time.Sleep(time.Second)
		s.Restart()
		time.Sleep(time.Second)
		if len(c.traces()) != 0 {
			t.Errorf("told %+v of what was not granted", c.traces())
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-got
		all := c.traces()
		if len(all) != 1 || all[0].Server == nil {
			t.Fatalf("told %+v", all)
		}
		x := all[0]
		if d := x.Handed.Longer(x.Asked); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("it waited %v in all", d)
		}
		if d := x.Taken.Longer(x.Asked); d < time.Second || d > 2*time.Second {
			t.Errorf("it was asked anew after %v; 1 s and a little was expected", d)
		}
		if d := time.Duration(x.Server.DecidedNano); d < 500*time.Millisecond || d > time.Second {
			t.Errorf("the second server had it waiting for %v", d)
		}
	})
}
