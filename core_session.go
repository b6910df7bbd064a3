package pawl

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/trust"
)

// renewals is how many renewals fit into a TTL.
const renewals = 6

// expire ends the session when its local deadline has passed.
func (c *core) expire() {
	if c.session.id != nil && c.session.window.State(c.now) == trust.Lost {
		c.lose(errOverdue, true)
	}
}

// showState tells of a change between Safe and Jeopardy. Lost is told by lose.
func (c *core) showState() {
	if c.session.id == nil {
		return
	}
	s := c.session.window.State(c.now)
	if s == trust.Safe && c.session.refused {
		s = trust.Jeopardy
	}
	if s == c.session.shown {
		return
	}
	c.session.shown = s
	if s == trust.Safe {
		c.emit(Safe, nil)
	} else {
		c.emit(Jeopardy, c.line.trouble)
	}
}

// renew sends a renewal when one is due, a tenth early or late so that many
// clients do not fall into step, but for the server's beat.
func (c *core) renew() {
	if c.line.state == lineUp && c.t >= c.session.renewAt && !c.finished {
		c.sendRenewal()
	}
}

// sendRenewal lets the next message renew the session. The reading that counts
// was taken before the message exists.
func (c *core) sendRenewal() uint64 {
	if c.effects.renewal == 0 {
		c.effects.renewal = c.session.window.Send(c.now)
		every := c.session.ttl / renewals
		c.session.renewAt = c.t + every*9/10 + time.Duration(float64(every/5)*c.jitter())
	}
	return c.effects.renewal
}

// keepBeat moves the next renewal to the server's last beat before it: what many
// clients send at once costs their server less.
func (c *core) keepBeat(next time.Duration) {
	s := &c.session
	if first := c.t + next; next > 0 && next <= linkpb.BeatGap && s.renewAt >= first {
		s.renewAt -= (s.renewAt - first) % linkpb.BeatGap
	}
}

// trusted hands the deadline to the leases.
func (c *core) trusted() {
	if from, span, ok := c.session.window.Anchor(); ok {
		c.session.standing.extend(from, span)
	}
}

// welcome begins a session's stream, for a new session or a returning one.
func (c *core) welcome(w *linkpb.Welcome, a *attempt) {
	s := &c.session
	if ttl := time.Duration(w.TtlNano); ttl < ttlMin || ttl > ttlMax || s.id == nil && len(w.Session) == 0 {
		c.failed(errNonsense)
		return
	}
	c.learnCell(w)
	s.dead = s.dead[min(len(a.closing), len(s.dead)):]
	c.greeted(a.renewal, time.Duration(w.TtlNano))
	fresh := s.id == nil
	if fresh {
		s.id = w.Session
		c.opened(w.Session)
	}
	if s.window.State(c.now) == trust.Lost {
		// The answer took longer than the session is good for.
		c.lose(errOverdue, true)
		c.line.dialAt = c.t + c.backoff()
		c.line.failures++
		return
	}
	c.trusted()
	c.up(w.Epoch)
	s.renewAt = c.t + s.ttl/renewals
	for _, n := range w.Lost {
		if l := c.leases[guard.Token(n)]; l != nil && !l.releasing() {
			c.drop(l, errGone)
		}
	}
	for _, call := range c.dialled {
		call.answer(nil, nil)
	}
	c.dialled = nil
	if c.closing {
		c.effects.close = true
		return
	}
	c.greetedTTL()
	for _, n := range c.line.cancels {
		c.post(&linkpb.Request{Number: c.number(), What: &linkpb.Request_Cancel{Cancel: &linkpb.Cancel{Number: n}}})
	}
	c.line.cancels = nil
	for _, n := range c.numbers() {
		c.ask(c.requests[n])
	}
	if w.RolledBack {
		c.emit(StoreRolledBack, ErrStoreRolledBack)
	}
}

// learnCell notes whose tokens are seen from now on. Those of another cell say
// nothing about this one's, nor do its epochs.
func (c *core) learnCell(w *linkpb.Welcome) {
	if c.cell != w.Cell {
		c.cell, c.highest, c.line.epoch = w.Cell, 0, 0
	}
}

// lose ends the session: every lease of it is over, now and for good, and what
// still waits begins anew in another session. giveUp: the server may not know
// yet, and is told at the next contact, before anything new is asked.
func (c *core) lose(cause error, giveUp bool) {
	s := &c.session
	if giveUp {
		s.dead = append(s.dead, s.id)
	}
	s.standing.end()
	lost := c.held()
	for _, l := range lost {
		l.end(cause)
	}
	c.emit(Lost, cause)
	clear(c.leases)
	s.reset()
	c.hangUp(nil)
	c.line.dialAt, c.line.cancels = c.t, nil
	if c.closing {
		c.finish(!giveUp)
		return
	}
	c.restart(cause)
}

// drop ends one lease.
func (c *core) drop(l *Lease, cause error) {
	delete(c.leases, l.token)
	l.end(cause)
}

// receive handles a message of the present stream.
func (c *core) receive(m *linkpb.ServerMessage) {
	if m.Renewal != 0 {
		c.renewed(m)
	}
	// Nothing may be granted in a session whose deadline has passed.
	c.expire()
	if c.line.state != lineUp {
		return
	}
	for _, r := range m.Replies {
		c.reply(r)
		if c.line.state != lineUp {
			return
		}
	}
	for _, n := range m.Notices {
		c.notice(n)
	}
	for _, o := range m.Observed {
		c.observed(o)
	}
	if m.Closed != nil {
		c.closed(m.Closed)
	}
}

func (c *core) notice(n *linkpb.Notice) {
	l := c.leases[guard.Token(n.Token)]
	if l == nil {
		return
	}
	if n.Kind == linkpb.Notice_KIND_BROKEN {
		c.drop(l, broken(n.Reason))
		return
	}
	// It is still ours: whoever works under it shall stop, then release it.
	l.cancel(fmt.Errorf("%w: asked to let go: %s", ErrBroken, n.Reason))
}

// closed handles the server's last word on a stream.
func (c *core) closed(w *linkpb.Closed) {
	why := because(w.Reason, w.Message)
	switch w.Reason {
	case linkpb.Reason_REASON_UNSPECIFIED, linkpb.Reason_REASON_GONE:
		if c.closing {
			c.finish(true)
		} else if c.session.id != nil {
			c.lose(errGone, false)
		} else {
			c.failed(why)
		}
	case linkpb.Reason_REASON_CONFLICT:
		// Our own newer streams are never told so: a copy of this process, from a
		// snapshot of the machine perhaps, goes on with the session. It keeps it.
		if c.session.id != nil && !c.closing {
			c.lose(fmt.Errorf("%w: %w", ErrLost, why), false)
		} else {
			c.failed(why)
		}
	case linkpb.Reason_REASON_UNAVAILABLE:
		c.redirect(w.ActiveLink, why)
	case linkpb.Reason_REASON_INVALID, linkpb.Reason_REASON_DENIED, linkpb.Reason_REASON_UNAUTHENTICATED,
		linkpb.Reason_REASON_STORE_ROLLED_BACK:
		c.turnedAway(why)
		if w.Reason == linkpb.Reason_REASON_STORE_ROLLED_BACK {
			c.emit(StoreRolledBack, why)
		}
	case linkpb.Reason_REASON_EXHAUSTED:
		// A server that observes less than we do would say so again and again.
		c.endWatches(why, func(w *watch) bool { return w.asked && !w.live })
		c.failed(why)
		c.crowdedOut(why)
	default:
		c.failed(why)
	}
}
