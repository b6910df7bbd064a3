package sim

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/locktable"
)

// queue is what the referee knows of who waits: those who were told so by the
// server whose tenure is in force, on a connection that stands since. Nobody of
// them may be overtaken: what comes later in the queue of one of its names and is
// granted before must be shared as it is.
type queue struct {
	referee *referee
	epoch   uint64
	all     []*waiting
}

type waiting struct {
	to     locktable.Ref
	number uint64
	place  locktable.Place
	told   time.Duration
}

// leaves takes in an answer that leaves a server.
func (q *queue) leaves(s *server, reply *locktable.Reply) {
	r := q.referee
	if e := s.tenure.Epoch(); e != q.epoch {
		if e < q.epoch {
			return
		}
		q.epoch, q.all = e, nil
	}
	switch a := reply.Answer.(type) {
	case locktable.Waiting:
		q.remove(reply.To, reply.Number)
		q.all = append(q.all, &waiting{to: reply.To, number: reply.Number, place: a.Place, told: r.world.now})
	case locktable.Granted, locktable.Refused:
		q.remove(reply.To, reply.Number)
	}
}

func (q *queue) remove(to locktable.Ref, number uint64) {
	q.all = slices.DeleteFunc(q.all, func(x *waiting) bool { return x.to == to && x.number == number })
}

// stands returns what somebody waits for, if it does for sure: it has not gone
// away, and its connection stands. session and key name the request.
func (x *waiting) stands(r *referee) (want *wish, is asked, ok bool) {
	switch to := x.to.(type) {
	case *stream:
		c := to.client
		if to.over || to.swallowed || to.deaf || c.stream != to || c.life != to.clientLife {
			return nil, asked{}, false
		}
		for _, q := range c.requests {
			// Under another number by now, perhaps: its place is the same.
			if q.lease == nil && q.was(x.number) {
				s := r.ledger.sessions[to.session]
				granted := slices.ContainsFunc(q.numbers, func(n uint64) bool {
					return r.ledger.asked[asked{session: to.session, number: n}] != 0
				})
				return &q.wish, asked{session: to.session, number: q.number}, s != nil && !s.over && !granted
			}
		}
	case *call:
		c := to.client
		if to.answered || to.alone || to.overdue || to.settled || c.want == nil || c.life != to.clientLife {
			return nil, asked{}, false
		}
		a := to.command.(locktable.Acquire)
		if r.ledger.byLease[a.Lease] != nil {
			return nil, asked{}, false
		}
		if s := r.ledger.sessions[a.Session]; a.Session != (locktable.ID{}) && (s == nil || s.over) {
			return nil, asked{}, false
		}
		return &wish{names: a.Names, mode: a.Mode}, asked{key: a.RequestKey}, true
	}
	return nil, asked{}, false
}

// granted holds a grant against those who wait.
func (q *queue) granted(e *recordpb.Event, g *entry) {
	r := q.referee
	w := r.world
	if now := r.current(); r.rebuilding || now == nil || now.misled || q.epoch != now.epoch {
		return
	}
	at := r.ledger.at
	place, known := q.place(e, g)
	for _, x := range q.all {
		if known && (x.place.Epoch > place.Epoch || x.place.Epoch == place.Epoch && x.place.Sequence >= place.Sequence) {
			continue
		}
		want, is, ok := x.stands(r)
		if !ok || x.told >= at || x.asked(e, g) ||
			is.key != (locktable.ID{}) && is.key == idOf(e.RequestKey) || q.is(x, e) {
			continue
		}
		if r.ledger.asked[is] != 0 && is != (asked{}) || want.mode == locktable.Shared && g.mode == locktable.Shared {
			continue
		}
		for _, n := range want.names {
			if g.has(n) {
				w.fail("order", "%s is granted with token %d, as request %d of %s at %v, and %v #%d waits for it since %v, told at %v",
					g.name, g.token, e.Request, g.session[:], place, nameOf(x.to), x.number, x.place, x.told)
			}
		}
	}
}

// asked reports whether a grant is to the very request that waits, under whichever of
// its numbers.
func (x *waiting) asked(e *recordpb.Event, g *entry) bool {
	to, ok := x.to.(*stream)
	return ok && to.session == g.session && slices.ContainsFunc(to.client.requests, func(q *request) bool {
		return q.was(x.number) && q.was(e.Request)
	})
}

// is reports whether a grant is that of a request without a stream.
func (q *queue) is(x *waiting, e *recordpb.Event) bool {
	c, ok := x.to.(*call)
	return ok && len(e.Lease) > 0 && c.command.(locktable.Acquire).Lease == idOf(e.Lease)
}

// place is where a request that is granted stood: as it was told, by the ticket
// that it showed, or at the end.
func (q *queue) place(e *recordpb.Event, g *entry) (locktable.Place, bool) {
	for _, x := range q.all {
		switch to := x.to.(type) {
		case *stream:
			if to.session == g.session && x.number == e.Request && e.Request != 0 {
				return x.place, true
			}
		case *call:
			a := to.command.(locktable.Acquire)
			if q.is(x, e) || a.RequestKey != (locktable.ID{}) && a.RequestKey == idOf(e.RequestKey) {
				return x.place, true
			}
		}
	}
	for _, c := range q.referee.world.clients {
		for _, r := range c.requests {
			if c.session == g.session && r.number == e.Request {
				return r.ticket(), r.ticket() != (locktable.Place{})
			}
		}
	}
	// Nobody asks any more who could tell the ticket.
	return locktable.Place{}, e.Request != 0
}

func nameOf(to locktable.Ref) string {
	switch to := to.(type) {
	case *stream:
		return to.client.name
	case *call:
		return to.client.name
	}
	return "somebody"
}

// setBack forgets who waits, when nobody does so at the reign that is in force now.
func (q *queue) setBack() {
	if now := q.referee.current(); now == nil || now.misled || now.epoch != q.epoch {
		q.epoch, q.all = 0, nil
	}
}
