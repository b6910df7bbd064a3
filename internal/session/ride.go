package session

import (
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/trust"
)

// A lease that rides (AcquireSpec.RideThrough) does not end with the session's deadline.
// Its holder has claimed its guards, which refuse it from the moment on in which a
// successor has claimed them. So it may go on for want of an answer:
//
//  1. The deadline passes. Leases that do not ride end, and with them what was asked
//     about them. The connection is closed: a greeting under way names leases that have
//     just ended, and nothing may be granted by an answer to what was asked before.
//  2. The session keeps its id, and the next greetings name the leases that ride.
//     Acquires that wait stay, under their numbers.
//  3. A server welcomes the session: the greeting was a renewal, the deadline moves on,
//     and the leases are as they were. Or the server does not have it: all is lost. Or it
//     has the session and not the lease: that one is lost.
//
// A lease that may ride, or that its guard has refused, is never released for its holder:
// what was sent under it may be on its way yet, and a guard of it that no successor has
// claimed would take it. That holds for one, too, that never rode, since its process stood
// still until its time was over. The server is told that it is lost, or not told at all and finds out by
// the TTL; either way its name is closed to acquires that do not claim.
//
// A ride also ends when its guard has refused the lease or shows a higher mark
// (Overtaken), and RideThrough after the sending of the last acknowledged renewal. When
// the last one has ended the session is lost, unless a server must be told more (stays).

const (
	// ridePerTTL is how often a server is asked for within a TTL while leases ride: a
	// server that returns gives the session one TTL to be heard again.
	ridePerTTL = 4
	// releaseRiding bounds the wait for the answer to a release while leases ride.
	releaseRiding = 2 * time.Second
)

// riding is what is known of a ride; the zero riding: none.
type riding struct {
	on bool
	// span is the least RideSpan of the leases that ride.
	span time.Duration
	// due: a lease has ended before its time, and span may be another's now.
	due bool
}

// RideSpan is how long a lease with this ride-through may go on after the sending of the
// last acknowledged renewal. It is shorter than the ride-through: the server closes the
// name for the whole of that, and its clock may be the faster one.
func RideSpan(rideThrough time.Duration) time.Duration {
	return trust.Span(rideThrough, trust.DriftPPM)
}

// RideLeft is the time until a lease with this ride-through must have ended, never
// negative.
func (d Deadline) RideLeft(now clock.Reading, rideThrough time.Duration) time.Duration {
	return max(RideSpan(rideThrough)-now.Longer(d.Acknowledged), 0)
}

// ridden is how long ago the last acknowledged renewal was sent.
func (m *Machine) ridden() time.Duration { return m.now.Longer(m.window.Acknowledged()) }

// isRider reports whether the end of a lease, for want of an answer, closes its name: its
// holder has not asked for its release.
func (l *Lease) isRider() bool { return l.RideThrough > 0 && l.release == nil }

// mayRide reports whether a lease can outlive the session's deadline.
func (m *Machine) mayRide(l *Lease) bool { return l.isRider() && RideSpan(l.RideThrough) > m.ridden() }

// mayClose reports whether to close the session releases nothing that is not to be released.
func (m *Machine) mayClose() bool {
	for _, l := range m.leases { //tidy:unordered any of them
		if l.isRider() {
			return false
		}
	}
	return len(m.untold()) == 0
}

// beginRide lets the leases that may ride do so, and ends the others; false: there is
// none that may, and nothing was done.
func (m *Machine) beginRide() bool {
	held := m.held()
	var riders []*Lease
	for _, l := range held {
		if m.mayRide(l) {
			riders = append(riders, l)
		}
	}
	if len(riders) == 0 || m.closing {
		return false
	}
	m.ride = riding{on: true, span: bounds.RideThroughMax}
	m.shown = trust.Lost
	for _, l := range held {
		switch {
		case m.mayRide(l):
		case l.isRider():
			m.giveUpLease(l, deadlinePassed)
		default:
			m.drop(l, deadlinePassed)
		}
	}
	m.endQuestions()
	m.closeStream(nil)
	m.conn.dialAt, m.conn.cancels = m.t, nil
	m.conn.silences = 0
	for _, l := range riders {
		m.ride.span = min(m.ride.span, RideSpan(l.RideThrough))
		m.effect(Effect{Kind: BeginRide, Lease: l, Interval: m.ttl / renewals})
	}
	m.emit(Riding, m.conn.cause)
	return true
}

// endQuestions answers releases and checks: that the lease is over, or that no server
// answers. That a lease is lost is still to be told.
func (m *Machine) endQuestions() {
	for _, n := range m.numbers() {
		r := m.requests[n]
		if r.kind == acquires || r.lost {
			continue
		}
		m.remove(r)
		if r.lease.state == leaseHeld {
			m.decide(r, unavailable(m.conn.cause))
		} else {
			m.decide(r, r.lease.over())
		}
	}
}

// checkRides ends rides whose time is over, and the session when none is left.
func (m *Machine) checkRides() {
	if !m.ride.due && m.ridden() < m.ride.span || m.closing {
		return
	}
	m.ride.due, m.ride.span = false, bounds.RideThroughMax
	var over []*Lease
	for _, l := range m.held() {
		if l.release == nil && RideSpan(l.RideThrough) <= m.ridden() {
			over = append(over, l)
		} else {
			m.ride.span = min(m.ride.span, RideSpan(l.RideThrough))
		}
	}
	switch {
	case len(over) < len(m.leases) || m.stays(over):
		for _, l := range over {
			m.giveUpLease(l, rideOver)
		}
	case len(over) == 0:
		m.lose(deadlinePassed, true)
	default:
		m.lose(rideOver, false)
	}
}

// stays reports whether the session is to be kept although nothing of it rides any more:
// some leases were released, and others are lost. To close it would release those, and
// to forget it would leave the names of the first claim-only.
func (m *Machine) stays(over []*Lease) bool {
	if m.ridden() >= bounds.RideThroughMax || len(over)+len(m.untold()) == 0 {
		return false
	}
	for _, r := range m.requests { //tidy:unordered any of them
		if r.kind == releases && !r.lost {
			return true
		}
	}
	return false
}

// endRide notes that a server has answered: the leases are as they were.
func (m *Machine) endRide() {
	if !m.ride.on {
		return
	}
	m.ride = riding{}
	for _, l := range m.held() {
		m.effect(Effect{Kind: EndRide, Lease: l})
	}
}

// rideChange is the time until a ride ends by itself.
func (m *Machine) rideChange() time.Duration {
	if m.ride.due {
		return 0
	}
	return m.ride.span - m.ridden()
}

// Overtaken ends a lease whose guard has refused it in favour of a successor, or would. err
// is what the guard says.
func (m *Machine) Overtaken(l *Lease, err error) {
	if l.state == leaseHeld && m.leases[l.Token] == l {
		m.giveUpLease(l, &Cause{Kind: Overtaken, GuardErr: err})
	}
}

// giveUpLease ends a lease that the server may still have, and has it told that the lease
// is lost. Greetings name the lease as held until then.
func (m *Machine) giveUpLease(l *Lease, why *Cause) {
	delete(m.leases, l.Token)
	m.end(l, leaseEnded, why)
	m.ride.due = m.ride.on
	m.enter(&Request{kind: releases, lease: l, lost: true})
}

// untold are the tokens of leases that are lost and of which the server was not told.
func (m *Machine) untold() (all []uint64) {
	for _, n := range m.numbers() {
		if r := m.requests[n]; r.lost {
			all = append(all, uint64(r.lease.Token))
		}
	}
	return all
}
