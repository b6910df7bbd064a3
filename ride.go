package pawl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/session"
)

// RideThrough lets the lease outlive an outage of the service. For want of an answer it
// does not end at its deadline, but rides, until maximum after the sending of the last
// acknowledged renewal. maximum is more than 0 and at most 24 h. The acquire must claim
// ([Claim], or [Claims]); it is for one name, exclusive or one of [Slots].
//
// What goes through no guard may happen twice: a mail, a charge, a read that is shown to
// somebody. While a lease rides a successor may be at work already, and only the guard
// tells this holder.
//
// While it rides, [Lease.Context] lives on, [Lease.Remaining] is 0, [Lease.Check] returns
// ErrUnavailable and [Lease.Release] waits for 2 s at most. The client asks for a server
// every quarter of the TTL, and reads the marks of the guards of Claim that are
// [guard.Seer] at once and every sixth of the TTL. The lease goes on under its token when
// a server answers that still has it. It ends with ErrLost when a server no longer has it,
// when [Lease.Overtaken] is told of a guard's refusal, when a mark is higher or of another
// cell, and when maximum is over. A guard that gives no answer ends no ride.
//
// What the guards protect is safe, since every successor claims: after the lease has ended
// unreleased, the name is closed for maximum to acquires that do not claim. Those that
// claim are granted at once.
func RideThrough(maximum time.Duration) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.RideThrough, s.rides = maximum, true }}
}

// Claims says that the caller claims its guards by itself, before it acts and before it
// reads what it acts on: in the transaction in which it works, for instance. [Claim] implies
// it. The service takes the caller's word, and shows it as the lease's grade.
func Claims() AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.Claims = true }}
}

// Riding reports whether the lease has outlived its deadline for want of an answer; see
// [RideThrough].
func (l *Lease) Riding() bool { return l.riding.Load() && l.ctx.Err() == nil }

// RideThrough is how long after its last acknowledged renewal the lease may go on without
// an answer, as the server granted it; 0: only to its deadline, as every lease of a server
// that is older than [RideThrough].
func (l *Lease) RideThrough() time.Duration { return l.of.RideThrough }

// RideLeft is the time until the lease must have ended even if no server answers: until
// its local deadline, or the end of its [RideThrough] where that is later; 0 when the
// lease has ended.
func (l *Lease) RideLeft() time.Duration {
	if state, _ := l.state(); state != leaseHeld {
		return 0
	}
	return l.mostLeft()
}

// mostLeft is the time until the lease's own end, by a clock that is read now.
func (l *Lease) mostLeft() time.Duration {
	d := l.standing.p.Load()
	if d == nil {
		return 0
	}
	now := l.client.clock.Now()
	return max(d.Left(now), d.RideLeft(now, l.of.RideThrough))
}

// Overtaken tells the lease of an error of its guard, and reports whether the error shows
// that the lease is over: its fence is stale ([guard.ErrStale]), or the resource is held
// to another cell ([guard.ErrForeign]). The lease then ends with ErrLost. Errors of other
// resources, or of other tokens, end nothing, and neither does [guard.ErrUnknown].
//
// [Client.Do] tells the lease what the work returns. Without Do, call Overtaken: while a
// lease rides, the guard may be the only one that knows of a successor.
func (l *Lease) Overtaken(err error) bool {
	if !l.refutedBy(err) {
		return false
	}
	l.client.submit(op{overtaken: l, guardErr: err})
	cause := overtaken(err)
	l.become(leaseEnded, cause, cause)
	return true
}

// refutedBy reports whether a guard's error shows that the lease is over.
func (l *Lease) refutedBy(err error) bool {
	// What work returns may be made of errors of several resources.
	switch x := err.(type) {
	case *guard.StaleError:
		return errors.Is(x, guard.ErrStale) && l.shows(func(f guard.Fence) bool { return f.Resource == x.Resource && f.Token == x.Shown })
	case *guard.ForeignError:
		return l.shows(func(f guard.Fence) bool { return f.Resource == x.Resource && f.Cell == x.Shown })
	case interface{ Unwrap() error }:
		return l.refutedBy(x.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), l.refutedBy)
	}
	return errors.Is(err, guard.ErrForeign) || errors.Is(err, guard.ErrStale)
}

// shows reports whether a fence of the lease is the one that was refused.
func (l *Lease) shows(refused func(guard.Fence) bool) bool {
	return slices.ContainsFunc(l.of.Holds, func(h session.Hold) bool { return refused(h.Fence) })
}

// markReadMin is the least time that a guard has to show its mark.
const markReadMin = 2 * time.Second

// beginRide reads the mark of every guard that shows it, until the ride ends.
func (l *Lease) beginRide(interval time.Duration) {
	l.riding.Store(true)
	ctx, cancel := context.WithCancel(l.ctx)
	l.stopReading = cancel
	for _, g := range l.claims {
		if seer, ok := g.(guard.Seer); ok {
			l.client.readers.Go(func() { l.readMarks(ctx, seer, interval) })
		}
	}
}

func (l *Lease) endRide() {
	if l.stopReading != nil {
		l.stopReading()
		l.stopReading = nil
	}
	l.riding.Store(false)
}

// readMarks reads a guard's mark now and after every interval. An error is no answer: the
// resource may be part of the outage.
func (l *Lease) readMarks(ctx context.Context, seer guard.Seer, interval time.Duration) {
	timer := l.client.clock.NewTimer()
	defer timer.Stop()
	fence := l.of.Holds[0].Fence // a lease that rides has one name
	for {
		if err := readMark(ctx, seer, fence, max(interval, markReadMin)); err != nil && l.Overtaken(err) {
			return
		}
		timer.Reset(interval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
	}
}

// readMark returns what the guard would say to the fence now; nil: it passes, or the guard
// gave no answer in time.
func readMark(ctx context.Context, seer guard.Seer, f guard.Fence, within time.Duration) error {
	reading, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen, err := seer.Seen(reading, f.Resource)
	if err != nil {
		return nil
	}
	_, verdict := guard.Decide(guard.Monotonic, seen, f.Mark())
	return verdict.Err(f.Resource, seen, f.Mark())
}

// validateRide checks RideThrough against the rest of the acquire.
func (s *acquireSettings) validateRide() error {
	if s.rides && s.RideThrough == 0 {
		return invalid(bounds.ValidRideThrough(0))
	}
	return invalid(bounds.ValidRide(s.Claims, s.Shared, len(s.Names), s.RideThrough))
}
