package trace

import (
	"context"
	"errors"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
)

// overStream follows acquires of the SDK, over a session of its own.
func (t *Trace) overStream(ctx context.Context, cell client.Target) (way, error) {
	var last *hook.Trace
	dialing, cancel := context.WithTimeout(ctx, client.ConnectMax)
	defer cancel()
	dialing = hook.With(dialing, hook.Parts{Traced: func(x hook.Trace) { last = &x }})
	c, err := cell.Dial(dialing, pawl.Options{TTL: t.TTL, Label: client.HostLabel()})
	if err != nil {
		return way{}, exit.FromSDK(ctx, err)
	}
	once := func(ctx context.Context) (lap, error) {
		last = nil
		l, err := t.throughSDK(ctx, c)
		if err != nil {
			return lap{}, err
		}
		if last == nil || last.Server == nil {
			return lap{}, errNotTraced()
		}
		return streamLap(l.Token(), *last), nil
	}
	return way{once: once, end: func() { client.Part(c, client.PartingMax) }}, nil
}

func streamLap(token guard.Token, t hook.Trace) lap {
	return lapOf(token, []clock.Reading{t.Asked, t.Taken, t.Sent}, serverStretches(t.Server), t.Received, t.Handed)
}

// throughSDK acquires and releases.
func (t *Trace) throughSDK(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
	l, err := t.acquire(ctx, c)
	var held *pawl.HeldError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &held):
		return nil, exit.Failed(exit.CodeNotAcquired, "%s is held by %s (%s) with token %d; --wait waits for it", output.Text(t.Name), output.Text(held.Label), output.Text(held.Handle), held.Token)
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrUnavailable):
		return nil, exit.Failed(exit.CodeNotAcquired, "%s was not granted within %v", output.Text(t.Name), t.Wait)
	case err != nil:
		return nil, exit.FromSDK(ctx, err)
	}
	if err := l.Release(ctx); err != nil {
		return nil, exit.FromSDK(ctx, err)
	}
	return l, nil
}

func (t *Trace) acquire(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
	if t.Wait == 0 {
		return c.TryAcquire(ctx, t.Name)
	}
	waiting, done := context.WithTimeout(ctx, t.Wait)
	defer done()
	return c.Acquire(waiting, t.Name)
}
