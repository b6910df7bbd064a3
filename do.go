package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlproject/pawl/guard"
)

// freshTries bounds how often Do asks for more time before it begins.
const freshTries = 3

// Do acquires a name as Acquire does, works under the lease, and releases it
// when the work has ended. The work's context ends with ctx and with the lease;
// Do then waits for the work to return, so that nobody works under a lease that
// was given up. If the work does not return, the lease is kept while it can be,
// and is never released under it.
//
// The work begins only while at least half of the trusted time is left; if the
// process was held up since the grant, the server is asked first.
//
// The fence is that of name. With [Names], those of an exclusive lease's other
// names differ from it in the Resource alone; take several names with Acquire
// when they are [Shared].
//
// Do returns the work's error, joined with ErrLost or ErrBroken when the lease
// ended before the work did: then somebody else may have worked meanwhile. When
// the work was not begun it returns the error of Acquire.
func (c *Client) Do(ctx context.Context, name string, work func(context.Context, guard.Fence) error, options ...AcquireOption) error {
	l, err := c.Acquire(ctx, name, options...)
	if err != nil {
		return err
	}
	// The end of ctx does not keep the lease from being released; the lease's
	// own deadline bounds the wait.
	defer func() { _ = l.Release(context.WithoutCancel(ctx)) }()
	if err := l.fresh(ctx); err != nil {
		return err
	}
	during, stop := l.over(ctx)
	defer stop()
	err = work(during, l.Fence(name))
	switch cause := context.Cause(l.ctx); {
	case cause == nil || errors.Is(err, cause):
		return err
	case err == nil:
		return l.because("work under", cause)
	default:
		return fmt.Errorf("%w; %w", l.because("work under", cause), err)
	}
}

// fresh makes sure that half of the trusted time is left.
func (l *Lease) fresh(ctx context.Context) error {
	for range freshTries {
		if left, span := l.standing.left(l.client.clock.Now()); l.ctx.Err() == nil && left > 0 && left >= span/2 {
			return nil
		}
		if err := l.Check(ctx); err != nil {
			return err
		}
	}
	return l.because("begin under", fmt.Errorf("%w fast enough: half of the TTL is used up by asking", ErrUnavailable))
}
