package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/session"
)

// Lease is one grant of a name, or of several at once, to a client. It lasts
// until it is released, until it is broken, or until its client's session ends.
// Its methods may be called by several goroutines.
type Lease struct {
	// of is the session's. Its token and holds never change; the rest is the loop's.
	of       *session.Lease
	standing *standing
	ctx      context.Context
	cancel   context.CancelCauseFunc
	client   *Client
	claims   []guard.Claimer
	riding   atomic.Bool
	// stopReading stops the readers of the guards' marks; nil: there are none. It is the
	// loop's.
	stopReading context.CancelFunc

	mu    sync.Mutex
	now   leaseState
	cause error
}

type leaseState uint8

const (
	leaseHeld leaseState = iota
	leaseReleased
	leaseEnded
)

// standing is a session's deadline as its leases see it; nil: the session is over.
type standing struct {
	p atomic.Pointer[session.Deadline]
}

func (s *standing) extend(d session.Deadline) { s.p.Store(&d) }

func (s *standing) end() { s.p.Store(nil) }

// left returns the time until the deadline and how long it is at best.
func (s *standing) left(now clock.Reading) (remaining, span time.Duration) {
	d := s.p.Load()
	if d == nil {
		return 0, 0
	}
	return d.Left(now), d.Span
}

func (c *Client) newLease(q *call, of *session.Lease) *Lease {
	l := &Lease{of: of, standing: c.standing, client: c, claims: q.wants.claims}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(q.ctx))
	of.Of = l
	return l
}

func (l *Lease) state() (leaseState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.cause
}

// end notes that the lease is over, and why.
func (l *Lease) end(why *session.Cause) {
	switch why.Kind {
	case session.Released:
		l.become(leaseReleased, nil, ErrReleased)
	case session.ClientClosed:
		l.become(leaseReleased, ErrClosed, ErrReleased)
	default:
		cause := errorOf(why)
		l.become(leaseEnded, cause, cause)
	}
}

func (l *Lease) become(s leaseState, cause, why error) {
	l.mu.Lock()
	if l.now == leaseHeld {
		l.now, l.cause = s, cause
	}
	l.mu.Unlock()
	l.cancel(why)
}

// Name is what was acquired; with [Names], the first of them.
func (l *Lease) Name() string { return l.of.Holds[0].Name }

// Names are all names that the lease holds, in the order in which they were
// asked for, each once.
func (l *Lease) Names() []string {
	all := make([]string, len(l.of.Holds))
	for i := range l.of.Holds {
		all[i] = l.of.Holds[i].Name
	}
	return all
}

// Token is the lease's fencing token: never 0, higher than that of every lease
// granted before in the cell. Guards of a shared lease want its Fence's.
func (l *Lease) Token() guard.Token { return l.of.Token }

// Fence returns the fence to show to the guard of a name. The name may be left out for
// a lease of one name. For a name that the lease does not hold it is the zero Fence,
// which every guard refuses. It does not change when the lease ends: refusing it then
// is the guard's task.
//
// Its Resource is the name, or for a slot the name, U+001F and the slot's number. Its
// token is the lease's, but for a [Shared] lease that of the first lease of the name's
// present run of readers.
func (l *Lease) Fence(name ...string) guard.Fence {
	if h := l.hold(name); h != nil {
		return h.Fence
	}
	return guard.Fence{}
}

// Slot is the number of the slot that the lease holds, from 1 to the n of
// [Slots]; 0 when it was not acquired with Slots. The name may be left out for a
// lease of one name.
func (l *Lease) Slot(name ...string) int {
	if h := l.hold(name); h != nil {
		return h.Slot
	}
	return 0
}

func (l *Lease) hold(name []string) *session.Hold {
	for i := range l.of.Holds {
		h := &l.of.Holds[i]
		if len(name) == 0 && len(l.of.Holds) == 1 || len(name) == 1 && h.Name == name[0] {
			return h
		}
	}
	return nil
}

// Context ends with the lease, at its local deadline at the latest, which is before
// another can be granted the name. Excepted are a forced break, and a lease that rides
// through an outage ([RideThrough]): its context lives on. It also ends when the
// holder is asked to release the lease. context.Cause returns ErrLost, ErrBroken or
// ErrReleased. It carries the values of the context that was given to Acquire, but
// neither its end nor its deadline.
func (l *Lease) Context() context.Context { return l.ctx }

// Remaining is the time until the local deadline as of now, at most the TTL,
// and 0 when the lease has ended, or rides. Renewals move the deadline on.
func (l *Lease) Remaining() time.Duration {
	if state, _ := l.state(); state != leaseHeld {
		return 0
	}
	left, _ := l.standing.left(l.client.clock.Now())
	return left
}

// Check asks the server whether the lease is still held, and renews the session. nil
// means that it was held at some moment after the call began, and that its deadline,
// which counts from then, had not passed when Check returned. Otherwise the error is
// ErrLost, ErrBroken, ErrReleased, ErrClosed or ctx's error, joined with ErrUnavailable
// when no server could be reached. In that last case the lease may still be held, and
// Remaining says for how long. While the lease rides the error is ErrUnavailable, at
// once.
func (l *Lease) Check(ctx context.Context) error {
	if state, cause := l.state(); state == leaseEnded {
		return l.because("check", cause)
	} else if state == leaseReleased {
		return l.because("check", ErrReleased)
	}
	err := l.ask(ctx, callCheck)
	if err == nil {
		err = l.overdue()
	}
	return l.because("check", err)
}

// Release gives the lease back; the next waiter is granted it. The lease's context ends
// before anything is sent, so that no work goes on under it.
//
// Release returns nil when the server has released the lease, now or before; calling it
// twice is allowed. ErrLost and ErrBroken say that the lease had ended already, and
// another may hold the name. A forced break is missed, and the result is nil, when both
// its notice and the first answer to the release are lost with their connections.
// ErrClosed says that the client was closed; Close reports whether the server knows.
//
// If ctx has ended already, the lease stays as it is. If ctx ends later, or no server
// answers until the lease's local deadline (ErrUnavailable), the lease is given up
// nevertheless and released as soon as a server can be reached. A lease that rides waits
// for 2 s.
func (l *Lease) Release(ctx context.Context) error {
	if state, cause := l.state(); state != leaseHeld {
		return l.because("release", cause)
	}
	if ctx.Err() != nil {
		return l.because("release", interrupted(ctx, nil))
	}
	l.cancel(ErrReleased)
	return l.because("release", l.ask(ctx, callRelease))
}

func (l *Lease) ask(ctx context.Context, kind callKind) error {
	c := newCall(kind)
	c.on = l
	if !l.client.submit(op{call: c}) {
		if state, cause := l.state(); state != leaseHeld {
			return cause
		}
		return ErrClosed
	}
	_, err, given := c.wait(ctx)
	if given {
		return interrupted(ctx, l.client.setTrouble())
	}
	return err
}

func (l *Lease) because(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pawl: %s %q (token %d): %w", verb, l.Name(), uint64(l.Token()), err)
}

// interrupted is the error of a call whose context ended.
func interrupted(ctx context.Context, trouble error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if trouble != nil {
		err = fmt.Errorf("%w: %w", err, trouble)
	}
	return err
}
