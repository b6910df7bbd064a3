package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/session"
	"github.com/pawlproject/pawl/internal/wire"
)

// effect carries out one thing that the machine wants.
func (c *client) effect(e *session.Effect) {
	w := c.world
	switch e.Kind {
	case session.AnswerCall:
		if r, asked := e.Ref.(*request); asked {
			c.answered(r, e.Cause)
		}
	case session.GrantLease:
		c.granted(e.Ref.(*request), e.Lease)
	case session.ReportBlocked:
		if r := e.Ref.(*request); e.Cause != nil && e.Cause.Kind == session.ClaimOnly {
			w.note(c.name, "is told that #%d has to wait for %v, since it does not claim", r.number, e.Cause.For)
		} else if e.Cause != nil {
			w.note(c.name, "is told that #%d has to wait: %s", r.number, e.Cause.Refused.Message)
			// Asked again later; it was told.
			r.sent = 0
		}
	case session.EndLease:
		if l, mine := e.Lease.Of.(*lease); mine {
			w.referee.rideEnds(c, l, e.Cause)
			c.ended(l, e.Cause.Kind == session.Released)
		}
	case session.RequestRelease:
		if l, mine := e.Lease.Of.(*lease); mine {
			l.breaking = true
		}
	case session.BeginRide:
		if l, mine := e.Lease.Of.(*lease); mine {
			c.beginRide(l, e.Interval)
		}
	case session.EndRide:
		if l, mine := e.Lease.Of.(*lease); mine {
			c.endRide(l)
		}
	case session.ExtendTrust:
		c.deadline = e.Deadline
		w.referee.believes(c, c.session)
	case session.BeginSession:
		c.deadline = session.Deadline{}
	case session.SessionOpened:
		c.session = idOf(c.machine.Session())
	case session.CloseStream:
		if c.stream != nil {
			c.stream.closeFromClient()
			c.stream = nil
		}
	case session.Dial:
		c.dial(e.Attempt)
	case session.PublishLeader:
		c.seen[e.Ref.(*observer).name] = e.Leader.Token
	case session.EmitEvent:
		c.happens(e.Event)
	case session.EndWatch, session.TraceRequest:
		// Nothing in a world depends on it.
	default:
		c.world.fail("session", "%s is to do %d, which nobody knows", c.name, e.Kind)
	}
}

func (c *client) happens(e *session.Event) {
	switch e.Kind {
	case session.Lost:
		c.lost(lostBy[e.Cause.Kind])
	case session.RolledBack:
		if r := c.world.referee; !r.rolled {
			c.world.fail("I1", "%s is told that the store was rolled back, and it was not", c.name)
		}
	}
}

var lostBy = map[session.CauseKind]string{
	session.DeadlinePassed: "its deadline has passed", session.Gone: "the server says that it is gone",
	session.SessionCopied: "another stream has it", session.RideOver: "it has ridden for as long as it may",
}

// dial begins an attempt.
func (c *client) dial(a *session.Attempt) {
	w := c.world
	i := slices.IndexFunc(w.servers, func(s *server) bool { return s.name == a.Server })
	x := &stream{
		world: w, client: c, server: w.servers[i], clientLife: c.life, serverLife: w.servers[i].life,
		attempt: a, dialled: c.clock.read(w.now), session: c.session, generation: a.Hello.Generation, slow: chance(c.network, 0.25),
	}
	x.packer.Front = x
	c.stream, c.dialledAt = x, w.now
	w.referee.promises.asked(c.session, time.Duration(a.Hello.TtlNano))
	x.greet()
}

// notes takes down what is sent, for the referee.
func (c *client) notes(m *linkpb.ClientMessage) {
	w := c.world
	if m.Renewal != 0 {
		c.sent[m.Renewal%uint64(len(c.sent))] = w.now
		c.sentAt[m.Renewal%uint64(len(c.sent))] = c.clock.read(w.now)
	}
	if m.TtlNano != 0 {
		w.referee.promises.asked(c.session, time.Duration(m.TtlNano))
	}
	for _, name := range m.Observe {
		w.referee.observers.asks(c.stream, name)
	}
	for _, x := range m.Requests {
		for _, r := range c.requests {
			if r.is(x) {
				w.note(c.name, "asks #%d for %s, under ticket %v, in place of #%d", x.Number, r.name(), r.ticket(), x.GetAcquire().GetReplaces())
				r.number, r.sent = x.Number, w.now
				if r.session != c.session {
					r.session, r.granted = c.session, false
				}
				if r.lease == nil {
					w.referee.waiters.asks(r)
				}
			}
		}
	}
}

// is reports whether a request goes out as x.
func (r *request) is(x *linkpb.Request) bool {
	switch what := x.What.(type) {
	case *linkpb.Request_Acquire:
		return r.handle != nil && r.handle.Number() == x.Number
	case *linkpb.Request_Release:
		return r.lease != nil && !r.check && r.lease.token == guard.Token(what.Release.Token)
	case *linkpb.Request_Check:
		return r.lease != nil && r.check && r.lease.token == guard.Token(what.Check.Token)
	}
	return false
}

func (c *client) remove(r *request) {
	r.done = true
	c.requests = slices.DeleteFunc(c.requests, func(x *request) bool { return x == r })
}

// asksFor sends a caller's question to the machine.
func (c *client) asksFor(r *request) {
	r.asked = c.world.now
	r.riding = r.lease != nil && !r.check && r.lease.riding != nil
	r.acts = c.note(r)
	c.requests = append(c.requests, r)
	c.ask(func(m *session.Machine) {
		switch {
		case r.check:
			m.Check(r, r.lease.of)
		case r.lease != nil:
			m.Release(r, r.lease.of)
		case r.caller.request == r:
			r.handle = m.Acquire(r, r.acquireSpec.acquire(r.try))
		}
	})
}

// note has the recorder record a request.
func (c *client) note(r *request) []*Act {
	x := c.world.recorder
	switch {
	case r.check:
		return x.asksAbout(&c.process, r.lease, VerbCheck)
	case r.lease != nil:
		return x.asksAbout(&c.process, r.lease, VerbRelease)
	}
	return x.asks(&c.process, &r.acquireSpec, r.try)
}

// forget gives up an acquire.
func (c *client) forget(r *request) {
	c.remove(r)
	c.ask(func(m *session.Machine) { m.GiveUp(r.handle) })
}

// granted hands a lease over. A caller that has given up meanwhile gives it back.
func (c *client) granted(r *request, of *session.Lease) {
	w := c.world
	c.remove(r)
	if r.caller.request != r {
		c.machine.ReleaseUnclaimed(of)
		return
	}
	l := &lease{
		of: of, name: r.name(), mode: r.mode, token: of.Token, holder: c, session: c.session, claims: r.claims, ride: r.ride,
	}
	for _, h := range of.Holds {
		l.grants = append(l.grants, locktable.Grant{Name: h.Name, Fence: h.Fence.Token, Slot: uint32(h.Slot)})
	}
	of.Of = l
	w.referee.answered(c, r, locktable.Granted{Token: l.token})
	w.referee.right(l, &r.acquireSpec, r.asked)
	w.recorder.granted(r.acts, l)
	c.leases = append(c.leases, l)
	w.referee.holds(l)
	r.caller.granted(l)
}

// answered takes an answer that is no lease.
func (c *client) answered(r *request, why *session.Cause) {
	w := c.world
	c.remove(r)
	if why == nil {
		w.referee.answered(c, r, locktable.Done{})
		w.recorder.returned(r.acts, r.lease, Done)
		if r.check {
			r.caller.checked(r, true)
			return
		}
		r.lease.ended = true
		r.caller.released()
		return
	}
	no := refusedOf(why)
	if no.Reason != "" {
		w.referee.answered(c, r, no)
	}
	if r.lease != nil && no.Reason == locktable.Gone {
		w.recorder.returned(r.acts, r.lease, Gone)
	}
	switch {
	case r.lease == nil:
		w.recorder.refused(r.acts, no)
		r.caller.refused(r)
	case r.check:
		r.caller.checked(r, false)
	default:
		r.lease.ended = true
		r.caller.released()
	}
}

// refusedOf is the server's refusal in the lock table's words; zero when no server
// refused.
func refusedOf(why *session.Cause) locktable.Refused {
	if why.Kind == session.Gone {
		return locktable.Refused{Reason: locktable.Gone}
	}
	if why.Kind != session.Refusal {
		return locktable.Refused{}
	}
	no := locktable.Refused{Reason: reasonOf(why.Refused.Reason), Name: why.Refused.Name}
	if h := why.Refused.Holder; h != nil {
		no.Holder = &locktable.Holder{Token: guard.Token(h.Token)}
	}
	return no
}

// reasonOf is the lock table's word for a reason.
func reasonOf(reason linkpb.Reason) locktable.Reason {
	for _, r := range []locktable.Reason{
		locktable.Invalid, locktable.Gone, locktable.Held, locktable.Conflict, locktable.Exhausted,
		locktable.Unavailable, locktable.RolledBack, locktable.Cancelled,
	} {
		if wire.Reason(r) == reason {
			return r
		}
	}
	return locktable.Reason(reason.String())
}

// placeIn reads the place in a ticket, which the cell has sealed.
func placeIn(ticket []byte) locktable.Place {
	if len(ticket) < 16 {
		return locktable.Place{}
	}
	return locktable.Place{Epoch: binary.BigEndian.Uint64(ticket), Sequence: binary.BigEndian.Uint64(ticket[8:])}
}
