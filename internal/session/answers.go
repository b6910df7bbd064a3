package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
)

// reply handles one answer. One to a request that is no longer there changes nothing:
// it was cancelled or moved, and a lease granted to it goes back.
func (m *Machine) reply(x *linkpb.Reply) {
	r := m.requests[x.Number]
	if r == nil {
		return
	}
	switch w := x.What.(type) {
	case *linkpb.Reply_Granted:
		if r.kind != acquires {
			m.failed(invalidAnswer)
			return
		}
		m.granted(r, w.Granted)
	case *linkpb.Reply_Waiting:
		if r.kind != acquires {
			m.failed(invalidAnswer)
			return
		}
		r.ticket = w.Waiting.Ticket
		m.moved(r)
		var why *Cause
		if closed := time.Duration(w.Waiting.ClaimOnlyNano); closed > 0 {
			why = &Cause{Kind: ClaimOnly, For: closed}
		}
		m.effect(Effect{Kind: ReportBlocked, Ref: r.ref, Cause: why})
	case *linkpb.Reply_Done:
		if r.kind == acquires {
			m.failed(invalidAnswer)
			return
		}
		m.done(r)
	case *linkpb.Reply_Refused:
		m.refusedBy(r, w.Refused)
	}
}

func (m *Machine) granted(r *Request, g *linkpb.Granted) {
	token := guard.Token(g.Token)
	// Only as far as the server says: one that knows of no riders would let others in who
	// do not claim.
	ride := min(r.spec.RideThrough, max(time.Duration(g.RideThroughNano), 0))
	l := &Lease{Token: token, RideThrough: ride}
	l.Holds = holdsOf(l.one[:0], r.spec, g, m.cell)
	if !token.Valid() || l.Holds == nil || m.leases[token] != nil {
		m.failed(invalidAnswer)
		return
	}
	m.highest = max(m.highest, token)
	m.remove(r)
	m.leases[token] = l
	m.effect(Effect{Kind: GrantLease, Ref: r.ref, Lease: l})
}

func (m *Machine) done(r *Request) {
	switch r.kind {
	case releases:
		m.released(r)
	case checks:
		r.answered = true
		if r.renewal == 0 {
			m.checked(r)
		}
	}
}

func (m *Machine) released(r *Request) {
	m.remove(r)
	if m.leases[r.lease.Token] == r.lease {
		delete(m.leases, r.lease.Token)
	}
	m.end(r.lease, leaseReleased, released)
	m.decide(r, nil)
}

// confirmChecks answers the checks whose renewal is acknowledged: the deadline
// now counts from after the question.
func (m *Machine) confirmChecks(renewal uint64) {
	for _, n := range m.numbers() {
		if r := m.requests[n]; r.kind == checks && r.sent && r.renewal <= renewal {
			r.renewal = 0
			if r.answered {
				m.checked(r)
			}
		}
	}
}

func (m *Machine) checked(r *Request) {
	m.remove(r)
	m.decide(r, nil)
}

func (m *Machine) refusedBy(r *Request, w *linkpb.Refused) {
	isGone := w.Reason == linkpb.Reason_REASON_GONE
	switch {
	case w.Reason == linkpb.Reason_REASON_UNAVAILABLE:
		m.redirect(w.ActiveLink, Refuse(w.Reason, w.Message))
	case r.kind == acquires:
		m.refusedAcquire(r, w)
	case r.kind == releases && isGone:
		m.releaseGone(r)
	case r.kind == checks && isGone:
		m.remove(r)
		if m.leases[r.lease.Token] == r.lease && r.lease.release == nil {
			m.drop(r.lease, gone)
		}
		m.decide(r, r.lease.over())
	default:
		m.remove(r)
		if r.lease.release == r {
			r.lease.release = nil
		}
		m.decide(r, refusal(w))
	}
}

// releaseGone ends a release whose lease the server does not know. If it was sent
// twice, the first request released the lease: the session lives, so the lease cannot
// have expired in between.
func (m *Machine) releaseGone(r *Request) {
	if r.asked && r.lease.state == leaseHeld {
		m.released(r)
		return
	}
	m.remove(r)
	if m.leases[r.lease.Token] == r.lease {
		m.drop(r.lease, gone)
	}
	m.decide(r, r.lease.over())
}

// refusedAcquire handles a refusal. The server may have refused before its lock table
// saw the request. The table may know the request from an earlier stream, or under its
// previous number, and may have granted it there.
func (m *Machine) refusedAcquire(r *Request, w *linkpb.Refused) {
	switch w.Reason {
	case linkpb.Reason_REASON_EXHAUSTED:
		if r.spec.Try {
			break
		}
		m.effect(Effect{Kind: ReportBlocked, Ref: r.ref, Cause: refusal(w)})
		pause := max(time.Duration(w.RetryAfterNano), exhaustedPause)
		m.backOff(r, pause+time.Duration(float64(pause)*m.jitter()))
		return
	case linkpb.Reason_REASON_GONE, linkpb.Reason_REASON_CANCELLED:
		// The number was used up: by a lease that was granted to it and broken
		// before we heard of it. The caller never saw that one.
		m.cancelReplaced(r)
		r.ticket, r.asked = nil, false
		m.backOff(r, backoffMin)
		return
	}
	if r.asked {
		m.cancel(r.number)
	}
	m.cancelReplaced(r)
	m.remove(r)
	m.decide(r, refusal(w))
}
