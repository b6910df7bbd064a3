package sim

import (
	"slices"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// hear handles one answer of the present stream.
func (c *client) hear(x *stream, number uint64, a locktable.Answer) {
	if c.stream != x {
		return
	}
	switch a := a.(type) {
	case locktable.Attached:
		c.attached(x, a)
	case locktable.Closed:
		c.closed(x, a)
	case locktable.Renewed:
		if c.good(a.Number, a.TTL) {
			c.world.referee.believes(c, c.session)
		}
	case locktable.Notice:
		c.noticed(a)
	case locktable.Observed:
		c.seen[a.Name] = a.Token
	default:
		c.answered(number, a)
	}
}

func (c *client) attached(x *stream, a locktable.Attached) {
	w := c.world
	if c.session == (locktable.ID{}) {
		w.tell(c.name, "opens a session at %s", x.server.name)
	} else {
		w.tell(c.name, "comes back to its session at %s", x.server.name)
	}
	c.session, c.up, c.failures = x.session, true, 0
	c.good(c.greeting, a.TTL)
	w.referee.attached(c, a)
	for _, token := range a.Lost {
		if l := c.lease(guard.Token(token)); l != nil {
			c.drop(l)
		}
	}
	c.renewAt = w.now + c.every()
	if a.TTL != c.moods.want {
		c.askTTL()
	}
	urgent, acquires := c.watch(), []locktable.Command(nil)
	for _, r := range c.requests {
		u, q := c.command(r)
		urgent, acquires = append(urgent, u...), append(acquires, q...)
	}
	if len(urgent)+len(acquires) > 0 {
		c.message(0, urgent, acquires)
	}
	for _, k := range c.callers {
		if c.plan.Fickle && c.rng.IntN(2) == 0 {
			k.giveUp()
		}
	}
}

func (c *client) closed(x *stream, a locktable.Closed) {
	x.over = true
	switch {
	case a.Reason == locktable.Gone && c.session != (locktable.ID{}):
		c.lose("the server says that it is gone")
	default:
		c.failed()
	}
}

func (c *client) noticed(n locktable.Notice) {
	l := c.lease(n.Token)
	if l == nil {
		return
	}
	if n.Ended {
		c.drop(l)
		return
	}
	l.breaking = true
}

// drop gives up one lease that the server says is lost.
func (c *client) drop(l *lease) {
	c.world.tell(c.name, "loses token %d of %s", l.token, l.name)
	l.ended = true
	c.leases = slices.DeleteFunc(c.leases, func(x *lease) bool { return x == l })
	for _, k := range c.callers {
		k.lost()
	}
}

func (c *client) lease(t guard.Token) *lease {
	for _, l := range c.leases {
		if l.token == t {
			return l
		}
	}
	return nil
}

// enter gives a request its number and asks it when that is possible.
func (c *client) enter(r *request) {
	r.number = c.next
	c.next++
	c.requests = append(c.requests, r)
	if r.asked == 0 {
		r.asked = c.world.now
		r.acts = c.note(r)
	}
	if r.sent = 0; c.up {
		r.sent = c.world.now
		u, a := c.command(r)
		c.message(0, u, a)
	}
}

// note has the witness note a request.
func (c *client) note(r *request) []*Act {
	x := c.world.witness
	switch {
	case r.check:
		return x.asksAbout(&c.process, r.lease, VerbCheck)
	case r.lease != nil:
		return x.asksAbout(&c.process, r.lease, VerbRelease)
	}
	return x.asks(&c.process, &r.wish, r.try)
}

func (c *client) command(r *request) (urgent, acquires []locktable.Command) {
	x := c.stream
	switch {
	case r.check:
		return []locktable.Command{locktable.Check{
			Ref: x, Session: x.session, Generation: x.generation, Number: r.number, Token: r.lease.token,
		}}, nil
	case r.lease != nil:
		return []locktable.Command{locktable.Release{
			Ref: x, Session: x.session, Generation: x.generation, Number: r.number, Token: r.lease.token,
		}}, nil
	}
	return nil, []locktable.Command{r.ask(locktable.Acquire{
		Ref: x, Session: x.session, Generation: x.generation, Number: r.number, Try: r.try, Ticket: r.ticket,
	})}
}

// forget gives up a request; the server is told as far as it may know of it.
func (c *client) forget(r *request) {
	c.requests = slices.DeleteFunc(c.requests, func(x *request) bool { return x == r })
	if c.stream != nil && c.session != (locktable.ID{}) {
		// On a greeting under way as well: it may name the request as wanted.
		cancel := locktable.Cancel{Session: c.stream.session, Generation: c.stream.generation, Number: r.number}
		c.message(0, []locktable.Command{cancel}, nil)
	}
}

// answered handles the answer to a request.
func (c *client) answered(number uint64, a locktable.Answer) {
	i := slices.IndexFunc(c.requests, func(r *request) bool { return r.number == number })
	if i < 0 {
		return
	}
	r := c.requests[i]
	if wait, waiting := a.(locktable.Waiting); waiting {
		r.ticket = wait.Place
		return
	}
	c.requests = slices.Delete(c.requests, i, i+1)
	c.world.referee.answered(c, r, a)
	switch a := a.(type) {
	case locktable.Granted:
		l := &lease{name: r.name(), grants: a.Grants, mode: r.mode, token: a.Token, holder: c, session: c.session}
		c.world.referee.right(l, &r.wish, r.asked)
		c.world.witness.granted(r.acts, l)
		c.leases = append(c.leases, l)
		c.highest = max(c.highest, a.Token)
		c.world.referee.holds(l)
		r.caller.granted(l)
	case locktable.Done:
		c.world.witness.told(r.acts, r.lease, Done)
		if r.check {
			r.caller.checked(r, true)
			return
		}
		c.endLease(r)
	case locktable.Refused:
		c.refused(r, a)
	}
}

func (c *client) endLease(r *request) {
	r.lease.ended = true
	c.leases = slices.DeleteFunc(c.leases, func(x *lease) bool { return x == r.lease })
	r.caller.released()
}

func (c *client) refused(r *request, a locktable.Refused) {
	switch {
	case r.lease == nil:
		c.world.witness.refused(r.acts, a)
	case a.Reason == locktable.Gone:
		c.world.witness.told(r.acts, r.lease, Gone)
	}
	switch {
	case r.check:
		r.caller.checked(r, false)
	case r.lease != nil:
		c.endLease(r)
	case a.Reason == locktable.Exhausted:
		c.world.after(&c.process, 100e6, func() {
			if r.caller.request == r {
				c.enter(r)
			}
		})
	default:
		r.caller.refused(a)
	}
}
