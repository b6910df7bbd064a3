package sim

import (
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// The log records the order in which operations took effect: an answer is right when
// its effect is in the log at some point between question and answer. So the lock
// interface is linearizable, and nothing leaves that is not durable.

// serverAnswered compares an answer with the log when a server sends it (I3).
func (r *referee) serverAnswered(s *server, reply *locktable.Reply) {
	x := s.served
	r.from[reply.To] = x
	if !x.misled {
		r.waiters.answered(s, reply)
	}
	sent, release := r.question(reply)
	if end, over := r.deposed[x.tenure]; over && sent > end {
		r.world.fail("I3", "%s of epoch %d answers %T, asked at %v, and the next epoch was claimed at %v",
			s.name, x.epoch, reply.Answer, sent, end)
	}
	r.tight(s, reply, sent)
	switch a := reply.Answer.(type) {
	case locktable.Observed:
		r.observers.answered(s, reply.To.(*stream), a)
	case locktable.Granted:
		r.granter[a.Token] = x
		if _, alone := reply.To.(*call); alone {
			r.promises.answered(s, a.Session, sent+a.Waited, a.TTL)
		}
		if r.ledger.entries[a.Token] == nil && !x.misled {
			r.world.fail("I3", "%s says that token %d is granted, and no durable batch does", s.name, a.Token)
		}
	case locktable.Attached:
		to := reply.To.(*stream)
		if r.ledger.sessions[to.session] == nil && !x.misled {
			r.world.fail("I3", "%s says that a session is open, and no durable batch does", s.name)
		}
		if c := to.client; c.stream == to {
			r.promises.answered(s, to.session, c.dialledAt, a.TTL)
		}
	case locktable.Renewed:
		if s.fullSince != 0 {
			r.tally.Spared++
		}
		r.promises.answered(s, a.Session, sent, a.TTL)
		if in := r.ledger.sessions[a.Session]; in != nil && in.silent && in.silentAt < sent && !x.misled {
			r.world.fail("I5", "%s answers a renewal of %v, and by the log its session is silent since %v", s.name, sent, in.silentAt)
		}
	case locktable.Done:
		if release != nil && !release.over && !x.misled {
			r.world.fail("I3", "%s says that token %d is released, and no durable batch does", s.name, release.token)
		}
	case locktable.Refused:
		if a.Reason == locktable.Gone && release != nil && release.heldThroughout(sent, r.world.now) && !x.misled {
			r.world.fail("I3", "%s says that token %d is gone, and the log has it held", s.name, release.token)
		}
		if a.Reason == locktable.Held && a.Holder != nil && !x.misled {
			r.heldBy(s, a.Holder.Token, sent)
		}
	}
}

// heldBy: a refusal that shows a holder shows one that was durable.
func (r *referee) heldBy(s *server, token guard.Token, sent time.Duration) {
	x := r.ledger.entries[token]
	if !x.heldDuring(sent, r.world.now) {
		r.world.fail("I3", "%s refuses because token %d holds, and by the log it does not", s.name, token)
	}
}

// question finds when what is answered was asked, and the lease that it was to
// release.
func (r *referee) question(reply *locktable.Reply) (sent time.Duration, release *entry) {
	switch to := reply.To.(type) {
	case *stream:
		c := to.client
		if a, renewed := reply.Answer.(locktable.Renewed); renewed && c.session == to.session {
			return c.sent[a.Number%uint64(len(c.sent))], nil
		}
		for _, q := range c.requests {
			if q.number == reply.Number && q.number != 0 && c.stream == to {
				if q.lease != nil && !q.check {
					release = r.ledger.entries[q.lease.token]
				}
				return q.asked, release
			}
		}
	case *call:
		if x, ok := to.command.(locktable.Release); ok {
			release = r.ledger.byLease[x.Lease]
		}
		return to.sent, release
	}
	return 0, nil
}

// answered holds the answer to a stream's request against the log.
func (r *referee) answered(c *client, q *request, answer locktable.Answer) {
	w := r.world
	if x := r.from[c.told]; x == nil || x.misled {
		return
	}
	switch a := answer.(type) {
	case locktable.Done:
		if q.check && !r.ledger.entries[q.lease.token].heldDuring(q.asked, w.now) {
			w.fail("I3", "%s checks token %d and is told that it holds, and by the log it did not", c.name, q.lease.token)
		}
	case locktable.Refused:
		r.tally.Refusals++
		if q.check && a.Reason == locktable.Gone && r.ledger.entries[q.lease.token].heldThroughout(q.asked, w.now) {
			w.fail("I3", "%s checks token %d and is told that it is gone, and by the log it holds", c.name, q.lease.token)
		}
		if q.lease == nil && q.try && w.plan.Modes == nil && a.Reason == locktable.Held && !r.ledger.nameHeldDuring(q.name(), q.asked, w.now) && r.alone(q) {
			w.fail("I3", "%s is refused %s as held, and by the log nobody held it", c.name, q.name())
		}
	}
}

// alone: nobody else may have stood in line before the request.
func (r *referee) alone(q *request) bool {
	for _, c := range r.world.clients {
		for _, other := range c.requests {
			if other != q && other.name() == q.name() && other.lease == nil {
				return false
			}
		}
	}
	return len(r.world.callers) == 0
}

// right: a grant was logged for all these names after it was asked for.
func (r *referee) right(l *lease, want *acquireSpec, asked time.Duration) {
	if r.granter[l.token].misled {
		return
	}
	x, who, name, token := r.ledger.entries[l.token], l.holder.who().name, want.name(), l.token
	switch {
	case x == nil:
		r.world.fail("I3", "%s holds token %d of %s, and no durable batch grants it", who, token, name)
	case x.name != name || x.granted < asked || x.mode != want.mode || !x.shows(l):
		r.world.fail("I3", "%s asked for %s at %v and is given token %d of %s, granted at %v", who, name, asked, token, x.name, x.granted)
	}
}

func (r *referee) unaryGranted(want *wanted, l *lease) {
	r.right(l, &want.acquireSpec, want.asked)
}

func (r *referee) unaryRefused(*wanted, locktable.Refused) { r.tally.Refusals++ }

func (r *referee) released(by *call, l *lease, asked time.Duration) {
	if x := r.ledger.entries[l.token]; x != nil && !x.over && !r.from[by].misled {
		r.world.fail("I3", "token %d was released as asked at %v, and by the log it holds", l.token, asked)
	}
}

// decided holds a guard's decision against the order of tokens (I6).
func (r *referee) decided(x *resource, fence guard.Token, ok bool) {
	switch {
	case x.moved:
		if ok {
			r.world.fail("I6", "%s takes fence %d, and is held to another cell", x.name, fence)
		}
		return
	case ok && fence < x.highest:
		r.world.fail("I6", "%s takes fence %d after fence %d", x.name, fence, x.highest)
	case !ok && fence >= r.last[x.name]:
		r.world.fail("I6", "%s refuses fence %d, the last one granted", x.name, fence)
	}
	if ok {
		x.highest = max(x.highest, fence)
	}
}

// takesEffect: who acts on what it has read acts on what is there.
func (r *referee) takesEffect(x *resource, l *lease, seen int) {
	r.tally.Effects++
	for _, other := range x.effects[min(seen, len(x.effects)):] {
		switch {
		case other.token == l.token:
		case !r.world.claimsFirst(l) && r.mayOverwrite(l, other):
			r.tally.Unclaimed++
		default:
			r.world.fail("I6", "%s writes %s with token %d on version %d, and token %d has written since",
				l.holder.who().name, x.name, l.token, seen, other.token)
		}
	}
}
