package session

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// A client asks for the TTL that it wants, wantTTL, with every greeting, and with a
// renewal when it changes. answeredTTL is the TTL of the last answer. ttl, the lower of
// the two, is what the client trusts and renews by. So a lower TTL counts from the
// request on, and a higher one from the answer on. askingTTL is the renewal that asked
// and was not answered.
//
// The client asks again for a TTL that the answer does not confirm:
//
//  1. The stream breaks after the request: the next greeting asks, since a server's
//     knowledge of a requested TTL ends with its tenure.
//  2. The TTL changes while a greeting is under way: a renewal asks, as soon as
//     the stream is open.
//  3. It changes again before the first change is answered: a second renewal
//     asks, and the answer to the first is ignored.

// SetTTL takes in that a caller wants another TTL, from 1 s to 24 h. It is answered
// when the server has confirmed it.
func (m *Machine) SetTTL(ref Ref, ttl time.Duration) {
	if m.closing || m.finished {
		m.answer(ref, closed)
		return
	}
	changed := ttl != m.wantTTL
	if changed {
		m.answerTTL(&Cause{Kind: TTLSuperseded, TTL: ttl})
		m.wantTTL = ttl
	}
	m.ttlCallers = append(m.ttlCallers, ref)
	switch {
	case m.id == nil:
	case m.answeredTTL == m.wantTTL && m.askingTTL == 0:
		m.answerTTL(nil)
	case changed:
		m.window.Ask(m.now, m.wantTTL)
		m.reportDeadline()
		m.ttl = min(m.answeredTTL, m.wantTTL)
		m.askTTL()
	}
}

// GiveUpTTL forgets a caller of SetTTL that gave up. What it wanted stands.
func (m *Machine) GiveUpTTL(ref Ref) {
	if i := slices.Index(m.ttlCallers, ref); i >= 0 {
		m.ttlCallers = slices.Delete(m.ttlCallers, i, i+1)
	}
}

// askTTL lets the next message ask for the TTL that is wanted.
func (m *Machine) askTTL() {
	if m.conn.state != connectionUp || m.closing {
		return
	}
	// A renewal that has not left yet may not count any more.
	m.outgoing.renewal = 0
	m.askingTTL = m.sendRenewal()
	m.outgoing.ttl = m.wantTTL
}

// greeted records the TTL that the answer to a greeting confirms, and moves the
// deadline.
func (m *Machine) greeted(renewal uint64, ttl time.Duration) {
	m.answeredTTL, m.ttl, m.askingTTL = ttl, min(ttl, m.wantTTL), 0
	m.window.Ack(renewal, m.ttl)
}

// greetedTTL answers those who want another TTL, or asks for it: the greeting may
// have been under way already, or its server older than TTLs that change.
func (m *Machine) greetedTTL() {
	if m.answeredTTL == m.wantTTL {
		m.answerTTL(nil)
	} else {
		m.askTTL()
	}
}

// renewed does the same for the answer to a renewal.
func (m *Machine) renewed(x *linkpb.ServerMessage) {
	ttl := time.Duration(x.TtlNano)
	if ttl == 0 {
		// A server that is older than TTLs that change gives what it gave.
		ttl = m.answeredTTL
	}
	if bounds.ValidTTL(ttl) != nil {
		m.failed(invalidAnswer)
		return
	}
	if !m.window.Ack(x.Renewal, min(ttl, m.wantTTL)) {
		return
	}
	m.keepBeat(time.Duration(x.BeatNano))
	m.answeredTTL, m.ttl = ttl, min(ttl, m.wantTTL)
	m.reportDeadline()
	m.confirmChecks(x.Renewal)
	if m.askingTTL == 0 || x.Renewal < m.askingTTL {
		return
	}
	m.askingTTL = 0
	if ttl == m.wantTTL {
		m.answerTTL(nil)
		return
	}
	why := &Cause{Kind: TTLUnchanged, TTL: m.wantTTL, Has: ttl}
	m.wantTTL, m.ttl = ttl, ttl
	m.answerTTL(why)
}

func (m *Machine) answerTTL(why *Cause) {
	for _, r := range m.ttlCallers {
		m.answer(r, why)
	}
	m.ttlCallers = nil
}
