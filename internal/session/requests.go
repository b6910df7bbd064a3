package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// OutstandingMax bounds the acquires of one client that are not decided.
	OutstandingMax = 1 << 15
	// NumbersMax is how far the numbers of unfinished requests may lie apart when
	// something new is acquired; servers refuse what lies 65,536 apart.
	NumbersMax = 64_000
	// exhaustedPause is the pause before a request is asked again that met a
	// limit of the server.
	exhaustedPause = 100 * time.Millisecond
)

// AcquireSpec is what an acquire asks for. The machine reads it and leaves it as it is.
type AcquireSpec struct {
	// Names to hold, all or nothing, each once.
	Names []string
	Label string
	// Shared with other shared leases; otherwise exclusive, or one of so many Slots
	// where that is not 0.
	Shared bool
	Slots  int
	Value  []byte
	// LockDelay of the names, should the lease end without its holder's doing.
	LockDelay time.Duration
	// Claims: the holder claims its guards before it acts. RideThrough is how long after
	// the last acknowledged renewal it may go on without an answer; 0: to its deadline.
	Claims      bool
	RideThrough time.Duration
	// Try: one try, no waiting.
	Try bool
	// Traced: the server tells when the request was where.
	Traced bool
}

type requestKind uint8

const (
	acquires requestKind = iota
	releases
	checks
)

// Request is a numbered question to the server. It is asked again on every new
// stream, under its number, until it is answered.
type Request struct {
	number uint64
	kind   requestKind
	// ref waits for the answer, and for a release more: all who asked for it.
	ref  Ref
	more []Ref
	spec *AcquireSpec
	// sent: it is on the present stream, or in the next message; left: a message has
	// taken it; asked: one of an earlier stream had.
	sent, left, asked bool
	// backingOff: it met a limit and is asked again later, under a new number unless the
	// server may know it.
	backingOff bool
	ticket     []byte
	// replaces is the number under which an acquire was asked with its ticket.
	replaces uint64
	lease    *Lease
	// lost: a release of a lease that was lost, for which nobody waits.
	lost bool
	// limit is when callers are told that no answer came, at the next sweep, or at that
	// very moment when it is exact; 0: never.
	limit time.Duration
	exact bool
	// renewal must be acknowledged as well before a check is answered.
	renewal  uint64
	answered bool
}

// Number is the request's present number; it is another one in another session, and
// when the request was moved.
func (r *Request) Number() uint64 { return r.number }

// Ticket is what the server gave a waiter, to show its place; nil: nothing yet.
func (r *Request) Ticket() []byte { return r.ticket }

// decide answers all callers that wait for a request.
func (m *Machine) decide(r *Request, why *Cause) {
	m.answer(r.ref, why)
	for _, ref := range r.more {
		m.answer(ref, why)
	}
	r.ref, r.more = nil, nil
}

func (m *Machine) number() uint64 {
	n := m.next
	m.next++
	return n
}

// enter gives a request its number and asks it when that is possible.
func (m *Machine) enter(r *Request) {
	r.number = m.number()
	m.requests[r.number] = r
	if m.conn.state == connectionUp && !m.closing {
		m.ask(r)
	}
}

// remove forgets a request.
func (m *Machine) remove(r *Request) {
	delete(m.requests, r.number)
	m.moved(r)
}

// ask puts a request on the stream.
func (m *Machine) ask(r *Request) {
	if r.backingOff {
		return
	}
	x := &linkpb.Request{Number: r.number}
	switch r.kind {
	case acquires:
		w := r.spec
		if w.Traced {
			x.Trace = true
			m.effect(Effect{Kind: TraceRequest, Ref: r.ref, Number: r.number})
		}
		x.What = &linkpb.Request_Acquire{Acquire: &linkpb.Acquire{
			Names: w.Names, Try: w.Try, Label: w.Label, Ticket: r.ticket, Replaces: r.replaces,
			Shared: w.Shared, Slots: uint32(w.Slots), Value: w.Value, LockDelayNano: int64(w.LockDelay),
			Claims: w.Claims, RideThroughNano: int64(w.RideThrough),
		}}
	case releases:
		x.What = &linkpb.Request_Release{Release: &linkpb.Release{Token: uint64(r.lease.Token), Lost: r.lost}}
	case checks:
		x.What = &linkpb.Request_Check{Check: &linkpb.Check{Token: uint64(r.lease.Token)}}
		r.answered, r.renewal = false, m.sendRenewal()
	}
	r.sent = true
	m.outgoing.asks = append(m.outgoing.asks, r)
	m.post(x)
}

func (m *Machine) post(x *linkpb.Request) { m.outgoing.requests = append(m.outgoing.requests, x) }

// Open is answered as soon as there is a session.
func (m *Machine) Open(ref Ref) {
	switch {
	case m.closing || m.finished:
		m.answer(ref, closed)
	case m.id != nil:
		m.answer(ref, nil)
	default:
		m.openCallers = append(m.openCallers, ref)
	}
}

// Acquire asks for a lease. It returns nil when it is refused at once.
func (m *Machine) Acquire(ref Ref, w *AcquireSpec) *Request {
	switch {
	case m.closing || m.finished:
		m.answer(ref, closed)
		return nil
	case len(m.requests) >= OutstandingMax:
		m.answer(ref, &Cause{Kind: TooManyRequests, Requests: len(m.requests)})
		return nil
	case m.next-m.lowest() >= NumbersMax:
		m.answer(ref, &Cause{Kind: NumbersTooFarApart, Request: m.low, Requests: int(m.next - m.low - 1)})
		return nil
	}
	r := &Request{kind: acquires, ref: ref, spec: w}
	if w.Try {
		r.limit = m.t + m.wantTTL
	}
	m.enter(r)
	return r
}

// Release gives a lease back. When it ended already the answer is why; twice is fine.
func (m *Machine) Release(ref Ref, l *Lease) {
	switch {
	case l.state == leaseEnded || l.state == leaseReleased && l.cause.Kind != Released:
		m.answer(ref, l.cause)
	case l.state == leaseReleased:
		m.answer(ref, nil)
	case m.closing || m.finished:
		m.answer(ref, closed)
	case l.release != nil:
		l.release.more = append(l.release.more, ref)
	default:
		l.release = &Request{kind: releases, ref: ref, lease: l}
		// The sweep comes every sixth of a TTL, and the answer is due at the
		// deadline.
		l.release.limit = m.t + max(m.window.Remaining(m.now)-m.ttl/renewals, 1)
		if m.ride.on {
			l.release.limit, l.release.exact = m.t+releaseRiding, true
			m.sweepAt = min(m.sweepAt, l.release.limit)
		}
		m.enter(l.release)
	}
}

// ReleaseUnclaimed gives back a lease that was granted to a caller that is gone.
func (m *Machine) ReleaseUnclaimed(l *Lease) { m.Release(nil, l) }

// Check asks the server whether a lease is still held, and renews the session.
func (m *Machine) Check(ref Ref, l *Lease) {
	switch {
	case m.closing || m.finished:
		m.answer(ref, closed)
	case l.state != leaseHeld:
		m.answer(ref, l.over())
	case m.ride.on:
		m.answer(ref, unavailable(m.conn.cause))
	default:
		m.enter(&Request{kind: checks, ref: ref, lease: l})
	}
}

// GiveUp forgets an acquire whose caller gave up. The server is told as far as it may
// know of the request.
func (m *Machine) GiveUp(r *Request) {
	if r != nil && m.requests[r.number] == r {
		m.forget(r)
	}
}

func (m *Machine) cancel(number uint64) {
	m.post(&linkpb.Request{Number: number, What: &linkpb.Request_Cancel{Cancel: &linkpb.Cancel{Number: number}}})
}

func (m *Machine) forget(r *Request) {
	delete(m.requests, r.number)
	switch {
	case m.closing || r.backingOff && !r.known():
	case r.sent || r.backingOff && m.conn.state == connectionUp:
		m.cancel(r.number)
		// It may overtake the request that was to end the old one.
		m.cancelReplaced(r)
	case m.conn.state == connectionDialling && m.id != nil:
		m.conn.cancels = append(m.conn.cancels, r.number)
		if r.replaces != 0 {
			m.conn.cancels = append(m.conn.cancels, r.replaces)
		}
	}
	m.moved(r)
}

// known reports whether the server may know a request under its number: it was told
// its place, is being moved, or was asked on an earlier stream and perhaps granted.
func (r *Request) known() bool { return r.ticket != nil || r.replaces != 0 || r.asked }

// backOff lets a request rest. All that rest are asked again together.
func (m *Machine) backOff(r *Request, pause time.Duration) {
	r.backingOff, r.sent, r.left = true, false, false
	if at := m.t + pause; m.againAt == 0 || at < m.againAt {
		m.againAt = at
	}
}

func (m *Machine) askAgain() {
	if m.againAt == 0 || m.t < m.againAt || m.conn.state != connectionUp {
		return
	}
	m.againAt = 0
	for _, n := range m.numbers() {
		r := m.requests[n]
		if !r.backingOff {
			continue
		}
		if r.backingOff = false; r.known() {
			m.ask(r)
			continue
		}
		delete(m.requests, n)
		m.enter(r)
	}
}

// sweep tells callers that no answer came in time. What they asked goes on as
// far as it must: a release until the session ends, a try is taken back.
func (m *Machine) sweep() {
	ttl := m.ttl
	if ttl == 0 {
		ttl = m.wantTTL
	}
	m.sweepAt = m.t + ttl/renewals
	for _, n := range m.numbers() {
		r := m.requests[n]
		if r.limit == 0 || m.t < r.limit {
			if r.exact {
				m.sweepAt = min(m.sweepAt, r.limit)
			}
			continue
		}
		r.limit, r.exact = 0, false
		m.decide(r, unavailable(m.conn.cause))
		switch {
		case r.kind == acquires:
			m.forget(r)
		case r.kind == releases && m.ride.on:
			// It is asked for on the next stream. Nothing more rides for it.
			delete(m.leases, r.lease.Token)
			m.end(r.lease, leaseEnded, deadlinePassed)
			m.ride.due = true
		}
	}
}

// restart carries on after a session's end: acquires are numbered anew for the
// next session and lose their place, everything else ends with the session.
func (m *Machine) restart(why *Cause) {
	old := m.numbers()
	requests := m.requests
	m.requests, m.next, m.low, m.renumberAt, m.againAt = map[uint64]*Request{}, 1, 1, 0, 0
	clear(m.replaced)
	for _, n := range old {
		r := requests[n]
		if r.kind != acquires {
			m.decide(r, why)
			continue
		}
		r.ticket, r.replaces, r.backingOff, r.sent, r.left, r.asked = nil, 0, false, false, false, false
		m.enter(r)
	}
}

// refuseAll ends every acquire and every observation when the server will not
// have us at all.
func (m *Machine) refuseAll(why *Cause) {
	m.answerOpening(why)
	m.answerTTL(why)
	m.endWatches(why, every)
	for _, n := range m.numbers() {
		if r := m.requests[n]; r.kind == acquires {
			m.remove(r)
			m.decide(r, why)
		}
	}
}
