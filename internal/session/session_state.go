package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/trust"
)

// renewals is how many renewals fit into a TTL.
const renewals = 6

// expire ends the session when its local deadline has passed, unless leases of it ride.
func (m *Machine) expire() {
	switch {
	case m.id == nil || m.window.State(m.now) != trust.Lost:
	case m.ride.on:
		m.checkRides()
	case !m.beginRide():
		m.lose(deadlinePassed, true)
	}
}

// showState tells of a change between Safe and Jeopardy. Lost is told by lose.
func (m *Machine) showState() {
	if m.id == nil || m.ride.on {
		return
	}
	s := m.window.State(m.now)
	if s == trust.Safe && m.refused {
		s = trust.Jeopardy
	}
	if s == m.shown {
		return
	}
	m.shown = s
	if s == trust.Safe {
		m.emit(Safe, nil)
	} else {
		m.emit(Jeopardy, m.conn.cause)
	}
}

// renew sends a renewal when one is due.
func (m *Machine) renew() {
	if m.conn.state == connectionUp && m.t >= m.renewAt {
		m.sendRenewal()
	}
}

// sendRenewal puts a renewal into the next message and sets when the following one is
// due: a sixth of the TTL later, up to a tenth of that early or late, so that clients
// do not renew in step. The deadline counts from a reading that was taken before the
// message exists.
func (m *Machine) sendRenewal() uint64 {
	if m.outgoing.renewal == 0 {
		m.outgoing.renewal = m.window.Send(m.now)
		every := m.ttl / renewals
		m.renewAt = m.t + every*9/10 + time.Duration(float64(every/5)*m.jitter())
	}
	return m.outgoing.renewal
}

// keepBeat moves the next renewal to the server's last beat before it: what many
// clients send at once costs their server less.
func (m *Machine) keepBeat(next time.Duration) {
	if first := m.t + next; next > 0 && next <= linkpb.BeatGap && m.renewAt >= first {
		m.renewAt -= (m.renewAt - first) % linkpb.BeatGap
	}
}

// reportDeadline tells the driver the deadline.
func (m *Machine) reportDeadline() {
	if from, span, ok := m.window.Anchor(); ok {
		m.effect(Effect{Kind: ExtendTrust, Deadline: Deadline{From: from, Span: span, Acknowledged: m.window.Acknowledged()}})
	}
}

// welcome begins a session's stream, for a new session or a returning one.
func (m *Machine) welcome(w *linkpb.Welcome, a *Attempt) {
	if ttl := time.Duration(w.TtlNano); bounds.ValidTTL(ttl) != nil || m.id == nil && len(w.Session) == 0 {
		m.failed(invalidAnswer)
		return
	}
	m.learnCell(w)
	// The attempt has given up the sessions that it named; those lost since stand
	// behind them.
	m.dead = m.dead[min(len(a.Closing), len(m.dead)):]
	m.greeted(a.renewal, time.Duration(w.TtlNano))
	if m.id == nil {
		m.id = w.Session
		m.effect(Effect{Kind: SessionOpened})
	}
	if m.window.State(m.now) == trust.Lost {
		// The answer took longer than the session is good for.
		m.expire()
		m.closeStream(nil)
		m.conn.dialAt = m.t + m.backoff()
		m.conn.failures++
		return
	}
	m.reportDeadline()
	m.up(w.Epoch)
	m.renewAt = m.t + m.ttl/renewals
	for _, n := range w.Lost {
		if l := m.leases[guard.Token(n)]; l != nil && l.release == nil {
			m.drop(l, gone)
		}
	}
	m.endRide()
	m.answerOpening(nil)
	if m.closing {
		// What is lost first: the session's end would release it.
		for _, n := range m.numbers() {
			if r := m.requests[n]; r.lost {
				m.ask(r)
			}
		}
		m.outgoing.close = true
		return
	}
	m.greetedTTL()
	for _, n := range m.conn.cancels {
		m.cancel(n)
	}
	for _, n := range m.numbers() {
		m.ask(m.requests[n])
	}
	m.conn.cancels = nil
	if w.RolledBack {
		m.emit(RolledBack, Refuse(linkpb.Reason_REASON_STORE_ROLLED_BACK, ""))
	}
}

// learnCell notes whose tokens are seen from now on. Those of another cell say
// nothing about this one's, nor do its epochs.
func (m *Machine) learnCell(w *linkpb.Welcome) {
	if m.cell != w.Cell {
		m.cell, m.highest, m.conn.epoch = w.Cell, 0, 0
	}
}

// lose ends the session: all its leases are over for good, and requests that still wait
// start again in another session. giveUp says that the server may not know yet; it is
// told at the next contact, before any new request, unless that would release a lease
// that is not to be released (ride.go).
func (m *Machine) lose(why *Cause, giveUp bool) {
	if giveUp && m.mayClose() {
		m.dead = append(m.dead, m.id)
	}
	m.effect(Effect{Kind: BeginSession})
	for _, l := range m.held() {
		m.end(l, leaseEnded, why)
	}
	m.emit(Lost, why)
	clear(m.leases)
	m.reset()
	m.closeStream(nil)
	m.conn.dialAt, m.conn.cancels = m.t, nil
	if m.closing {
		m.finish(!giveUp)
		return
	}
	m.restart(why)
}

// receive handles a message of the present stream.
func (m *Machine) receive(x *linkpb.ServerMessage) {
	if x.Renewal != 0 {
		m.renewed(x)
	}
	// Nothing may be granted in a session whose deadline has passed.
	m.expire()
	if m.conn.state != connectionUp {
		return
	}
	for _, r := range x.Replies {
		m.reply(r)
		if m.conn.state != connectionUp {
			return
		}
	}
	for _, n := range x.Notices {
		m.notice(n)
	}
	for _, o := range x.Observed {
		m.observed(o)
	}
	if x.Closed != nil {
		m.closedBy(x.Closed)
	}
}

func (m *Machine) notice(n *linkpb.Notice) {
	l := m.leases[guard.Token(n.Token)]
	if l == nil {
		return
	}
	if n.Kind == linkpb.Notice_KIND_BROKEN {
		m.drop(l, &Cause{Kind: Broken, Message: n.Reason})
		return
	}
	// It is still ours: work under it is to stop, then it is to be released.
	m.effect(Effect{Kind: RequestRelease, Lease: l, Cause: &Cause{Kind: BreakRequested, Message: n.Reason}})
}

// closedBy handles the server's last word on a stream.
func (m *Machine) closedBy(w *linkpb.Closed) {
	why := Refuse(w.Reason, w.Message)
	switch w.Reason {
	case linkpb.Reason_REASON_UNSPECIFIED, linkpb.Reason_REASON_GONE:
		if m.closing {
			m.finish(true)
		} else if m.id != nil {
			m.lose(gone, false)
		} else {
			m.failed(why)
		}
	case linkpb.Reason_REASON_CONFLICT:
		// Our own newer streams are never told so: a copy of this process, from a
		// snapshot of the machine perhaps, goes on with the session. It keeps it.
		if m.id != nil && !m.closing {
			m.lose(&Cause{Kind: SessionCopied, Under: why}, false)
		} else {
			m.failed(why)
		}
	case linkpb.Reason_REASON_UNAVAILABLE:
		m.redirect(w.ActiveLink, why)
	case linkpb.Reason_REASON_INVALID, linkpb.Reason_REASON_DENIED, linkpb.Reason_REASON_UNAUTHENTICATED,
		linkpb.Reason_REASON_STORE_ROLLED_BACK:
		m.noteRefusal(why)
		if w.Reason == linkpb.Reason_REASON_STORE_ROLLED_BACK {
			m.emit(RolledBack, why)
		}
	case linkpb.Reason_REASON_EXHAUSTED:
		// A server that observes less than we do would say so again and again.
		m.endWatches(why, func(w *watch) bool { return w.asked && !w.live })
		m.failed(why)
		m.failOpenCalls(why)
	default:
		m.failed(why)
	}
}
