package pawl

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/pawlproject/pawl/guard"
)

// AcquireOption changes one acquire.
type AcquireOption struct{ set func(*acquireSettings) }

type acquireSettings struct {
	label  string
	claims []guard.Claimer
}

// Label names the holder of this lease, for people; at most 256 bytes. Without
// it the client's label is shown.
func Label(label string) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.label = label }}
}

// Claim raises every guard to the new lease's fence before the acquire returns:
// from then on nothing of an earlier holder takes effect there, and what is
// read can be acted upon. When a guard cannot be claimed the lease is released
// and the acquire fails with the guard's error.
func Claim(guards ...guard.Claimer) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.claims = append(s.claims, guards...) }}
}

func (c *Client) acquire(ctx context.Context, name string, try bool, options []AcquireOption) (*Lease, error) {
	var s acquireSettings
	for _, o := range options {
		o.set(&s)
	}
	err := sound("name", name, nameMax)
	if err == nil {
		err = sound("label", s.label, labelMax)
	}
	if err != nil {
		return nil, fmt.Errorf("pawl: acquire %.64q: %w", name, err)
	}
	l, err := c.lease(ctx, name, try, s.label)
	if err == nil {
		err = claimAll(ctx, l, s.claims)
	}
	if err != nil {
		return nil, fmt.Errorf("pawl: acquire %q: %w", name, err)
	}
	return l, nil
}

// Bounds in bytes. The server has more to say about names.
const (
	nameMax  = 512
	labelMax = 256
)

// sound refuses what could not be sent: it would break the stream for all.
func sound(what, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%w: the %s has %d bytes; at most %d were expected", ErrInvalid, what, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: the %s is not valid UTF-8", ErrInvalid, what)
	}
	return nil
}

func (c *Client) lease(ctx context.Context, name string, try bool, label string) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx, nil)
	}
	call := newCall(callAcquire)
	call.name, call.label, call.try, call.ctx, call.client = name, label, try, ctx, c
	if !c.submit(op{call: call}) {
		return nil, ErrClosed
	}
	l, err, given := call.wait(ctx)
	if given {
		c.submit(op{call: call, abandon: true})
		if trouble := c.troubled(); trouble != nil {
			return nil, interrupted(ctx, unavailable(trouble))
		}
		return nil, interrupted(ctx, nil)
	}
	return l, err
}

// claimTries bounds how often a guard is asked that did not say what became of
// the claim. Claiming twice does no harm.
const claimTries = 3

func claimAll(ctx context.Context, l *Lease, guards []guard.Claimer) error {
	if len(guards) == 0 {
		return nil
	}
	work, stop := l.over(ctx)
	defer stop()
	for _, g := range guards {
		var err error
		for range claimTries {
			if err = g.Claim(work, l.Fence()); !errors.Is(err, guard.ErrUnknown) || work.Err() != nil {
				break
			}
		}
		if err == nil && work.Err() != nil {
			err = context.Cause(work)
		}
		if err != nil {
			return l.giveBack(ctx, err)
		}
	}
	return nil
}

// giveBack releases a lease that the caller will not get to see.
func (l *Lease) giveBack(ctx context.Context, why error) error {
	if err := l.Release(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("claim with token %d: %w (giving the lease back: %w)", uint64(l.token), why, err)
	}
	return fmt.Errorf("claim with token %d: %w (the lease was released)", uint64(l.token), why)
}

// over returns ctx, ending with the lease as well and with the lease's cause.
func (l *Lease) over(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return work, func() {
		stop()
		cancel(nil)
	}
}
