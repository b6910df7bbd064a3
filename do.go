package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pawlproject/pawl/guard"
)

// freshTries bounds how often Do asks for more time before it begins.
const freshTries = 3

// Do acquires a name as Acquire does, runs work under the lease, and releases the lease
// when work returns. The work's context ends with ctx and with the lease. Do then waits
// for the work to return, so that none goes on under a lease that was given up. If the
// work does not return, the lease is kept as long as possible, and is never released
// under it.
//
// The work begins only while at least half of the trusted time is left; if the process
// was delayed since the grant, Do asks the server first.
//
// The fence is that of name. With [Names], those of an exclusive lease's other names
// differ from it in the Resource alone. Take several [Shared] names with Acquire.
//
// Do returns the work's error, joined with the reason for the lease's end if it ended
// before the work returned. The reason is ErrLost when the local deadline had passed,
// by a clock that is read then, or the server no longer had the lease. It is ErrBroken
// when the lease was broken by force or its holder was asked to release it, and
// ErrReleased when the client was closed. With ErrLost, and after a break by force,
// another may have worked meanwhile.
//
// Without any of the three the lease was held until the work returned, with one
// exception: a break by force is missed when both its notice and the answer to the
// release are lost with their connections. A lease that was broken, or whose session
// was ended, after the work returned and before the release, cannot be told from one
// that ended earlier, and is an error, too.
//
// A release that no server answers is no error of Do: the work had ended in time, and
// the lease is released later or ends by its TTL. When the work was not begun, Do
// returns the error of Acquire or of [Lease.Check], or ErrUnavailable when the server
// answers too slowly to begin.
func (c *Client) Do(ctx context.Context, name string, work func(context.Context, guard.Fence) error, options ...AcquireOption) error {
	l, err := c.Acquire(ctx, name, options...)
	if err != nil {
		return err
	}
	if err := l.fresh(ctx); err != nil {
		// Nothing was done under the lease, so its end matters to nobody.
		_ = l.Release(context.WithoutCancel(ctx))
		return err
	}
	return l.under(ctx, func(during context.Context) error { return work(during, l.Fence(name)) })
}

// under works under the lease and releases it, also when the work panics.
func (l *Lease) under(ctx context.Context, work func(context.Context) error) (err error) {
	during, stop := l.over(ctx)
	defer func() {
		stop()
		l.Overtaken(err)
		err = l.conclude(ctx, err)
	}()
	return work(during)
}

// conclude releases a lease whose work has returned with err. It joins err with the
// reason for the lease's end if the lease ended, or may have ended, before the work
// returned.
//
// The lease's context alone does not show that: after a freeze the work may go on
// before the client's loop has run.
//
//  1. The process is frozen until after the deadline. The name is granted to another holder.
//  2. The process goes on and the work returns. The loop has not run yet, so the
//     lease's context has not ended.
//  3. The clock shows that the deadline has passed.
//
// Two answers to the release count as a loss: the lease was broken, and the server does
// not have it. Both may have happened before the work returned. Others do not count.
// ErrUnavailable and ErrClosed say nothing about the lease. A deadline that passes
// while the release waits for its answer passes after the work returned, because the
// clock was read before.
func (l *Lease) conclude(ctx context.Context, err error) error {
	overdue := l.overdue()
	cause := context.Cause(l.ctx)
	// The end of ctx does not keep the lease from being released; the lease's
	// own deadline bounds the wait.
	said := l.Release(context.WithoutCancel(ctx))
	if cause != nil {
		err = joined(err, l.because("work under", cause), cause)
	}
	switch {
	case errors.Is(said, errOverdue) && overdue == nil:
		// The deadline passed while the release waited, after the work had returned.
	case errors.Is(said, ErrLost), errors.Is(said, ErrBroken):
		return joined(err, said, errors.Unwrap(said))
	case overdue != nil && !errors.Is(cause, ErrLost) && !errors.Is(cause, ErrReleased):
		return joined(err, l.because("work under", overdue), overdue)
	}
	return err
}

// joined is err and how the lease ended, unless err says that already.
func joined(err, ended, cause error) error {
	switch {
	case err == nil:
		return ended
	case errors.Is(err, cause):
		return err
	default:
		return fmt.Errorf("%w; %w", ended, err)
	}
}

// overdue is not nil when the lease's deadline, or the end of its ride, has passed, which
// the client's loop may not have seen yet.
func (l *Lease) overdue() error {
	if l.mostLeft() > 0 {
		return nil
	}
	_, cause := l.state()
	return cmp.Or(cause, errOverdue)
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
