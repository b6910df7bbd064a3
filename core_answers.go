package pawl

import (
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
)

// reply handles one answer. One to a request that is no longer there is of no
// account: it was cancelled, and a lease granted to it goes back.
func (c *core) reply(m *linkpb.Reply) {
	r := c.requests[m.Number]
	if r == nil {
		return
	}
	switch w := m.What.(type) {
	case *linkpb.Reply_Granted:
		if r.kind == callAcquire {
			c.granted(r, w.Granted)
		}
	case *linkpb.Reply_Waiting:
		r.ticket = w.Waiting.Ticket
		c.moved(r)
		for _, call := range r.calls {
			call.meets(nil)
		}
	case *linkpb.Reply_Done:
		c.done(r)
	case *linkpb.Reply_Refused:
		c.refused(r, w.Refused)
	}
}

func (c *core) granted(r *request, g *linkpb.Granted) {
	token := guard.Token(g.Token)
	call := r.calls[0]
	holds := holdsOf(&call.wants, g, c.cell)
	if !token.Valid() || holds == nil || c.leases[token] != nil {
		c.failed(errNonsense)
		return
	}
	c.highest = max(c.highest, token)
	l := newLease(call, token, holds, c.session.standing)
	if !call.answer(l, nil) {
		// The caller has given up and its word is on the way: the lease goes
		// back with the request.
		l.cancel(ErrReleased)
		return
	}
	c.moved(r)
	delete(c.requests, r.number)
	c.leases[token] = l
}

func (c *core) done(r *request) {
	switch r.kind {
	case callRelease:
		c.released(r)
	case callCheck:
		r.answered = true
		if r.renewal == 0 {
			c.checked(r)
		}
	}
}

func (c *core) released(r *request) {
	delete(c.requests, r.number)
	if c.leases[r.lease.token] == r.lease {
		delete(c.leases, r.lease.token)
	}
	r.lease.endReleased()
	r.answer(nil, nil)
}

// confirmChecks answers the checks whose renewal is acknowledged: the deadline
// now counts from after the question.
func (c *core) confirmChecks(renewal uint64) {
	for _, n := range c.numbers() {
		if r := c.requests[n]; r.kind == callCheck && r.sent && r.renewal <= renewal {
			r.renewal = 0
			if r.answered {
				c.checked(r)
			}
		}
	}
}

func (c *core) checked(r *request) {
	delete(c.requests, r.number)
	r.answer(nil, nil)
}
