package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/session"
)

// AcquireOption changes one acquire.
type AcquireOption struct{ set func(*acquireSettings) }

// acquireSettings are what one acquire asks for. The first name is the one that
// it was called with.
type acquireSettings struct {
	session.AcquireSpec
	slotted bool
	leader  bool
	rides   bool
	claims  []guard.Claimer
}

// Label names the holder of this lease, for people; at most 256 bytes. Without
// it the client's label is shown.
func Label(label string) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.Label = label }}
}

// Claim raises every guard to the new lease's fence before the acquire returns:
// from then on nothing of an earlier holder takes effect there, and what is
// read can be acted upon. With Names every guard is claimed with the fence of
// every name. When a guard cannot be claimed the lease is released and the
// acquire fails with the guard's error.
func Claim(guards ...guard.Claimer) AcquireOption {
	return AcquireOption{func(s *acquireSettings) {
		s.claims = append(s.claims, guards...)
		s.Claims = s.Claims || len(guards) > 0
	}}
}

func (c *Client) acquire(ctx context.Context, verb, name string, try bool, options []AcquireOption) (*Lease, error) {
	call := newCall(callAcquire)
	s := &call.wants
	s.Names = append(s.Names, name)
	for _, o := range options {
		o.set(s)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("pawl: %s %.64q: %w", verb, name, err)
	}
	s.Try, call.ctx = try, ctx
	l, err := c.lease(ctx, call)
	if err == nil {
		err = claimAll(ctx, l, s.claims)
	}
	if err != nil {
		return nil, fmt.Errorf("pawl: %s %q: %w", verb, name, err)
	}
	return l, nil
}

func (c *Client) lease(ctx context.Context, call *call) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx, nil)
	}
	if c.tracer != nil {
		call.trace, call.wants.Traced = c.tracer.begin(), true
	}
	if !c.submit(op{call: call}) {
		return nil, ErrClosed
	}
	l, err, given := call.wait(ctx)
	if call.trace != nil {
		call.trace.end(l != nil)
	}
	if given {
		c.submit(op{call: call, abandon: true})
		if trouble := c.setTrouble(); trouble != nil {
			return nil, interrupted(ctx, unavailable(trouble))
		}
		if met := call.blockedBy.Load(); met != nil {
			return nil, interrupted(ctx, c.stillBlocked(*met))
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
		for i := range l.of.Holds {
			if err := claim(work, g, l.of.Holds[i].Fence); err != nil {
				return l.giveBack(ctx, err)
			}
		}
	}
	// A process that was frozen meanwhile may be here before the lease's context
	// has ended.
	if err := l.overdue(); err != nil {
		return l.giveBack(ctx, err)
	}
	return nil
}

func claim(work context.Context, g guard.Claimer, f guard.Fence) (err error) {
	for range claimTries {
		if err = g.Claim(work, f); !errors.Is(err, guard.ErrUnknown) || work.Err() != nil {
			break
		}
	}
	if err == nil && work.Err() != nil {
		err = context.Cause(work)
	}
	return err
}

// giveBack releases a lease that the caller will not get to see.
func (l *Lease) giveBack(ctx context.Context, why error) error {
	if err := l.Release(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("claim with token %d: %w (giving the lease back: %w)", uint64(l.Token()), why, err)
	}
	return fmt.Errorf("claim with token %d: %w (the lease was released)", uint64(l.Token()), why)
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
