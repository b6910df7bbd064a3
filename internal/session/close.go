package session

import "time"

// Close begins the end: nothing more is asked, and the session is closed if a
// server can be reached in time.
func (m *Machine) Close(within time.Duration) {
	if m.closing || m.finished {
		return
	}
	m.closing, m.closeBy = true, m.t+within
	for _, n := range m.numbers() {
		if r := m.requests[n]; r.kind != releases {
			m.remove(r)
			m.decide(r, closed)
		}
	}
	m.answerOpening(closed)
	m.answerTTL(closed)
	m.endWatches(closed, every)
	for _, l := range m.held() {
		m.end(l, leaseReleased, closed)
	}
	clear(m.leases)
	switch {
	case m.id == nil && len(m.dead) == 0:
		m.finish(true)
	case m.conn.state == connectionUp:
		m.outgoing.close = true
	default:
		m.conn.dialAt = m.t
	}
}

// finish ends the machine; confirmed: no lease of it is left at the server.
func (m *Machine) finish(confirmed bool) {
	m.finished, m.unconfirmed = true, !confirmed
	m.effect(Effect{Kind: BeginSession})
	m.closeStream(nil)
	m.endWatches(closed, every)
	for _, n := range m.numbers() {
		r := m.requests[n]
		m.remove(r)
		if confirmed && r.kind == releases {
			m.decide(r, nil)
		} else {
			m.decide(r, unavailable(m.conn.cause))
		}
	}
}
