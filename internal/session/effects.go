package session

import (
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// Ref stands for a caller or an observer. The machine hands it back and never looks
// inside.
type Ref any

// Effect is one thing for the driver to carry out. Its Kind decides which of the other
// fields are set.
type Effect struct {
	Kind EffectKind
	// Ref is the caller or observer that it is for.
	Ref   Ref
	Lease *Lease
	// Cause says why; nil: all is well.
	Cause   *Cause
	Attempt *Attempt
	Event   *Event
	Leader  *Leader
	// Number of a request.
	Number uint64
	// Deadline until which the session's leases are trusted.
	Deadline Deadline
	// Interval between two readings of the guards' marks, for a lease that rides.
	Interval time.Duration
}

// Deadline is how long the leases of a session are trusted: Span after From. The zero
// Deadline has passed.
type Deadline struct {
	From clock.Reading
	Span time.Duration
	// Acknowledged is when the last acknowledged renewal was sent, from which rides
	// count.
	Acknowledged clock.Reading
}

// Left is the time until the deadline, never negative.
func (d Deadline) Left(now clock.Reading) time.Duration { return max(d.Span-now.Longer(d.From), 0) }

// EffectKind is what an effect is about.
type EffectKind uint8

// The effects.
const (
	// AnswerCall ends a call: it was done when Cause is nil.
	AnswerCall EffectKind = iota + 1
	// GrantLease ends an acquire with a Lease. A driver whose caller is gone calls
	// ReleaseUnclaimed.
	GrantLease
	// ReportBlocked reports what keeps a call from being granted, or from entering the
	// queue, as the server said last; a nil Cause: only other waiters before it.
	ReportBlocked
	// EndLease: the Lease is over; Cause says why. A release that was asked for is no
	// loss: its cause is of the kind Released.
	EndLease
	// RequestRelease: the Lease is to be released; it is still held.
	RequestRelease
	// BeginRide: the deadline has passed, and the Lease rides. Its guards' marks are to be
	// read now and every Interval, until EndRide or EndLease.
	BeginRide
	// EndRide: a server has answered, and the Lease is held as before.
	EndRide
	// ExtendTrust: the leases of the present session are trusted until Deadline.
	ExtendTrust
	// BeginSession: leases granted from now on belong to a new session; those of the
	// session before are no longer trusted.
	BeginSession
	// SessionOpened: a session was opened; Machine.Session is its id.
	SessionOpened
	// CloseStream ends the present attempt or stream.
	CloseStream
	// Dial begins an Attempt.
	Dial
	// PublishLeader gives an observer the Leader; EndWatch ends its watch.
	PublishLeader
	EndWatch
	// EmitEvent reports an Event.
	EmitEvent
	// TraceRequest: an acquire that is followed is asked under Number.
	TraceRequest
)

// EventKind is what an Event tells of.
type EventKind uint8

// The events.
const (
	// Safe: renewals are acknowledged.
	Safe EventKind = iota + 1
	// Jeopardy: half of the trusted time has gone by without one, or no server will
	// have this client.
	Jeopardy
	// Riding: the deadline has passed, and leases ride.
	Riding
	// Lost: the session ended with all its leases.
	Lost
	// RolledBack: the cell's log lost grants that it had acknowledged.
	RolledBack
)

// Event is a change of the session. Remaining is the time until the deadline, Leases
// how many are concerned.
type Event struct {
	Kind      EventKind
	Remaining time.Duration
	Leases    int
	Cause     *Cause
}

// Leader is a name's holder; the zero Leader means none.
type Leader struct {
	Token guard.Token
	Value []byte
	Label string
}

// Effects returns what is to be carried out, in order, and forgets it. The slice is
// good until the next call.
func (m *Machine) Effects() []Effect {
	all := m.effects
	clear(m.spare)
	m.effects, m.spare = m.spare[:0], all
	return all
}

func (m *Machine) effect(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) answer(to Ref, why *Cause) {
	if to != nil {
		m.effect(Effect{Kind: AnswerCall, Ref: to, Cause: why})
	}
}

func (m *Machine) emit(kind EventKind, why *Cause) {
	e := &Event{Kind: kind, Cause: why, Leases: len(m.leases)}
	if kind != Lost && kind != Riding {
		e.Remaining = m.window.Remaining(m.now)
	}
	m.effect(Effect{Kind: EmitEvent, Event: e})
}
