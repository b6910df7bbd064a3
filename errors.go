package pawl

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/dialerr"
	"github.com/pawlproject/pawl/internal/session"
)

// The errors of this package, for errors.Is. An error of a call whose context
// ended matches that context's error as well.
var (
	// ErrHeld: TryAcquire found the name held. The error is a *HeldError.
	ErrHeld = errors.New("held by another lease")
	// ErrLost: the lease's session ended, by its local deadline or because the
	// server no longer knows it. The lease never comes back.
	ErrLost = errors.New("lease lost")
	// ErrBroken: somebody broke the lease, or asked for it to be broken.
	ErrBroken = errors.New("lease broken")
	// ErrReleased: the lease was released by this client.
	ErrReleased = errors.New("lease released")
	// ErrUnavailable: no server answered in time. Whether the request took
	// effect is unknown; what was granted late is given back.
	ErrUnavailable = errors.New("no server answered")
	// ErrDenied: the server does not allow it to this caller.
	ErrDenied = errors.New("denied")
	// ErrConflict: the request does not go together with what is there.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: the request exceeds a bound, or the server does not understand it.
	ErrInvalid = errors.New("invalid")
	// ErrExhausted: a limit of the server or of this client is reached.
	ErrExhausted = errors.New("limit reached")
	// ErrStoreRolledBack: the cell's log lost grants that it had acknowledged,
	// and the server will not go on until an operator has looked.
	ErrStoreRolledBack = errors.New("store rolled back")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client closed")
)

// The ways in which a lease is lost.
var (
	errOverdue  = fmt.Errorf("%w: its deadline passed before a renewal was acknowledged", ErrLost)
	errGone     = fmt.Errorf("%w: the server no longer has it", ErrLost)
	errRideOver = fmt.Errorf("%w: no server has answered for all of its ride-through", ErrLost)
)

// overtaken is the end of a lease whose guard says so.
func overtaken(err error) error { return fmt.Errorf("%w: overtaken: %w", ErrLost, err) }

// blocked says why a request waits, as far as is known. Of a name that is claim-only it
// posts an event, too.
func (c *Client) blocked(q *call, w *session.Cause) error {
	if w == nil || w.Kind != session.ClaimOnly {
		return errorOf(w)
	}
	name := ""
	if names := q.wants.Names; len(names) == 1 {
		name = names[0]
	}
	e := c.claimOnly(name, w.For)
	c.post(Event{Kind: ClaimOnly, Err: e})
	return e
}

// claimOnly says for how long a name is claim-only; "": one of several.
func (c *Client) claimOnly(name string, left time.Duration) *HeldError {
	e := &HeldError{Name: name, ClaimOnly: left, told: c.clock.Now(), message: fmt.Sprintf("closed to acquires that do not claim, "+
		"for %v, until %s: a lease that rides through outages ended unreleased, and its holder may be going on; "+
		"with Claim it is granted at once", left.Round(time.Second), c.clock.Wall().Add(left).UTC().Format(time.RFC3339))}
	if name != "" {
		e.message = strconv.Quote(name) + " is " + e.message
	}
	return e
}

// stillBlocked is what keeps a call of what was told before; nil: nothing by now.
func (c *Client) stillBlocked(told error) error {
	e, claimOnly := told.(*HeldError)
	if !claimOnly {
		return told
	}
	left := e.ClaimOnly - c.clock.Now().Longer(e.told)
	if left <= 0 {
		return nil
	}
	return c.claimOnly(e.Name, left)
}

var (
	errNoGreeting = errors.New("the server did not greet")
	errNonsense   = errors.New("the server's answer makes no sense")
)

// errorOf makes an error of what the session says; nil of nil.
func errorOf(w *session.Cause) error {
	if w == nil {
		return nil
	}
	switch w.Kind {
	case session.NetworkError:
		return w.NetworkErr
	case session.Timeout:
		return fmt.Errorf("no answer to a %s from %s", w.What, w.Server)
	case session.NoGreeting:
		return errNoGreeting
	case session.InvalidAnswer:
		return errNonsense
	case session.Refusal:
		return refusal(w.Refused)
	case session.NoAnswer:
		return unavailable(errorOf(w.Under))
	case session.ClientClosed:
		return ErrClosed
	case session.TooManyRequests:
		return fmt.Errorf("%w: %d requests of this client are not answered", ErrExhausted, w.Requests)
	case session.NumbersTooFarApart:
		return fmt.Errorf("%w: request %d of this client is not answered, and %d came after it", ErrExhausted, w.Request, w.Requests)
	case session.TooManyWatches:
		return fmt.Errorf("%w: this client observes %d names", ErrExhausted, w.Names)
	case session.TTLSuperseded:
		return fmt.Errorf("%w: another call made the TTL %v meanwhile", ErrConflict, w.TTL)
	case session.TTLUnchanged:
		return fmt.Errorf("%w: the server leaves the TTL at %v and does not make it %v", ErrInvalid, w.Has, w.TTL)
	case session.Released:
		return ErrReleased
	case session.DeadlinePassed:
		return errOverdue
	case session.Gone:
		return errGone
	case session.Broken:
		if w.Message == "" {
			return ErrBroken
		}
		return fmt.Errorf("%w: %s", ErrBroken, w.Message)
	case session.BreakRequested:
		return fmt.Errorf("%w: asked to let go: %s", ErrBroken, w.Message)
	case session.SessionCopied:
		return fmt.Errorf("%w: %w", ErrLost, errorOf(w.Under))
	case session.RideOver:
		return errRideOver
	case session.Overtaken:
		return overtaken(w.GuardErr)
	}
	panic(fmt.Sprintf("pawl: a session says %d, which nobody knows", w.Kind))
}

// HeldError says who holds a name; it matches ErrHeld. It shows the state when the
// server answered. Token is 0 when the name is not held, but others wait for it or it is
// closed: by a lock-delay, or to acquires that do not claim.
type HeldError struct {
	// Name is what could not be had: the first, where several were asked for.
	Name string
	// Label is what the holder calls itself, Since when it was granted the
	// lease by the server's wall clock: both are for people.
	Label string
	Since time.Time
	Token guard.Token
	// Handle stands for the holder's session, in listings too. It gives no
	// power over it.
	Handle string
	// ClaimOnly is for how long the name stays closed to acquires that do not claim, such
	// as this one: a lease that rides ([RideThrough]) ended unreleased. It may be longer
	// where the service has outages meanwhile. 0: that is not what keeps it.
	ClaimOnly time.Duration

	// told is when a waiter was told of ClaimOnly.
	told    clock.Reading
	message string
}

func (e *HeldError) Error() string {
	if e.message != "" {
		return e.message
	}
	by := "another lease"
	if e.Label != "" {
		by = strconv.Quote(e.Label)
	}
	what := "held by " + by
	if e.Name != "" {
		what = strconv.Quote(e.Name) + " is " + what
	}
	return fmt.Sprintf("%s (token %d)", what, uint64(e.Token))
}

// Is makes errors.Is match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// refusal makes an error of what a server refused.
func refusal(r *linkpb.Refused) error {
	if r.Reason == linkpb.Reason_REASON_HELD {
		e := &HeldError{Name: r.Name, ClaimOnly: time.Duration(r.ClaimOnlyNano)}
		if r.Holder == nil || r.ClaimOnlyNano > 0 {
			e.message = r.Message
		}
		if h := r.Holder; h != nil {
			e.Label, e.Handle, e.Token = h.Label, h.Holder, guard.Token(h.Token)
			e.Since = time.Unix(0, h.SinceUnixNano)
		}
		return e
	}
	return because(r.Reason, r.Message)
}

func because(reason linkpb.Reason, message string) error {
	kind := ErrUnavailable
	switch reason {
	case linkpb.Reason_REASON_INVALID, linkpb.Reason_REASON_TOKEN_MISMATCH:
		kind = ErrInvalid
	case linkpb.Reason_REASON_UNAUTHENTICATED:
		kind = errUnauthenticated
	case linkpb.Reason_REASON_DENIED:
		kind = ErrDenied
	case linkpb.Reason_REASON_GONE:
		kind = ErrLost
	case linkpb.Reason_REASON_CONFLICT:
		kind = ErrConflict
	case linkpb.Reason_REASON_EXHAUSTED:
		kind = ErrExhausted
	case linkpb.Reason_REASON_STORE_ROLLED_BACK:
		kind = ErrStoreRolledBack
	}
	if message == "" {
		return kind
	}
	return fmt.Errorf("%w: %s", kind, message)
}

// errUnauthenticated is the kind of ErrDenied that says why.
var errUnauthenticated error = unauthenticatedError{}

type unauthenticatedError struct{}

func (unauthenticatedError) Error() string { return "unauthenticated" }

// Is makes errors.Is match ErrDenied.
func (unauthenticatedError) Is(target error) bool { return target == ErrDenied }

// answeredError is a kind of ErrUnavailable where a server did answer: with why
// it does not serve this client.
type answeredError struct{ why error }

func (e answeredError) Error() string { return e.why.Error() }

// Is makes errors.Is match ErrUnavailable.
func (e answeredError) Is(target error) bool { return target == ErrUnavailable }

func (e answeredError) Unwrap() error { return e.why }

// unreachedError says which server could not be reached, and why: a kind of
// ErrUnavailable that needs no other words.
type unreachedError struct{ at *dialerr.Error }

func (e *unreachedError) Error() string { return e.at.Error() }

// Is makes errors.Is match ErrUnavailable.
func (e *unreachedError) Is(target error) bool { return target == ErrUnavailable }

// unavailable adds what went wrong with the connection, as far as is known.
func unavailable(trouble error) error {
	if trouble == nil {
		return ErrUnavailable
	}
	if errors.Is(trouble, ErrUnavailable) {
		return trouble
	}
	if errors.Is(trouble, ErrDenied) || errors.Is(trouble, ErrExhausted) {
		return answeredError{trouble}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, trouble)
}
