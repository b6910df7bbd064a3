package sim

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/locktable"
)

// queue is what the referee knows of waiters: those that the server of the present
// tenure has told that they wait, on a connection that still stands. None of them may
// be overtaken: a later waiter for one of its names that is granted first must be
// shared as it is.
type queue struct {
	referee *referee
	epoch   uint64
	all     []*waiting
	// requests are those of streams, by every number that they had.
	requests map[asked]*request
	// askers are the calls that asked last under each request id, as a server decided it.
	askers map[locktable.ID]locktable.Ref
}

type waiting struct {
	to     locktable.Ref
	number uint64
	// request is that of a stream.
	request *request
	place   locktable.Place
	told    time.Duration
}

// answered takes in an answer that a server sends.
func (q *queue) answered(s *server, reply *locktable.Reply) {
	r := q.referee
	if e := s.tenure.Epoch(); e != q.epoch {
		if e < q.epoch {
			return
		}
		q.epoch, q.all = e, nil
	}
	switch a := reply.Answer.(type) {
	case locktable.Waiting:
		if on, ok := reply.To.(*call); ok {
			q.repeats(on, a.Place)
		}
		q.remove(reply.To, reply.Number)
		x := &waiting{to: reply.To, number: reply.Number, place: a.Place, told: r.world.now}
		if on, ok := reply.To.(*stream); ok {
			x.request = q.requests[asked{session: on.session, number: reply.Number}]
		}
		q.all = append(q.all, x)
	case locktable.Refused:
		if on, ok := reply.To.(*call); !ok || on.overdue || a.Reason != locktable.Cancelled {
			q.remove(reply.To, reply.Number)
		}
		// Otherwise it was asked again on another connection: the place is that one's.
	case locktable.Granted:
		q.remove(reply.To, reply.Number)
	}
}

func (q *queue) remove(to locktable.Ref, number uint64) {
	q.all = slices.DeleteFunc(q.all, func(x *waiting) bool { return x.to == to && x.number == number })
}

// asks takes in that a request is sent under a number.
func (q *queue) asks(x *request) {
	q.requests[asked{session: x.session, number: x.number}] = x
}

// stands returns what a waiter waits for, if it surely still waits: it was not
// cancelled, and its connection stands. A request of a stream may have another number
// by now; its place is the same.
func (x *waiting) stands(r *referee) (want *acquireSpec, key locktable.ID, ok bool) {
	switch to := x.to.(type) {
	case *stream:
		c, q := to.client, x.request
		if to.over || to.swallowed || to.deaf || c.stream != to || c.life != to.clientLife ||
			q == nil || q.done || q.granted || q.session != to.session {
			return nil, key, false
		}
		s := r.ledger.sessions[to.session]
		return &q.acquireSpec, key, s != nil && !s.over
	case *call:
		c := to.client
		if to.answered || to.alone || to.overdue || to.completed || c.want == nil || c.life != to.clientLife {
			return nil, key, false
		}
		a := to.command.(locktable.Acquire)
		if a.RequestKey != (locktable.ID{}) && r.waiters.askers[a.RequestKey] != locktable.Ref(to) {
			// It is told that the request was repeated on another connection, which may be
			// one of before whose request was late.
			return nil, key, false
		}
		if r.ledger.byLease[a.Lease] != nil {
			return nil, key, false
		}
		if s := r.ledger.sessions[a.Session]; a.Session != (locktable.ID{}) && (s == nil || s.over) {
			return nil, key, false
		}
		return &acquireSpec{names: a.Names, mode: a.Mode, claims: a.Claims}, a.RequestKey, true
	}
	return nil, key, false
}

// granted holds a grant against those who wait.
func (q *queue) granted(e *recordpb.Event, g *entry) {
	r := q.referee
	w := r.world
	if now := r.current(); r.rebuilding || now == nil || now.misled || q.epoch != now.epoch {
		return
	}
	at := r.ledger.at
	own := q.requests[asked{session: g.session, number: e.Request}]
	if own != nil {
		own.granted = true
	}
	place, known := q.place(e, own)
	for _, x := range q.all {
		if x.told >= at || own != nil && x.request == own {
			continue
		}
		if known && (x.place.Epoch > place.Epoch || x.place.Epoch == place.Epoch && x.place.Sequence >= place.Sequence) {
			continue
		}
		want, key, ok := x.stands(r)
		if !ok || q.is(x, e) || r.ledger.passedOver(want.claims, want.names) || want.mode == locktable.Shared && g.mode == locktable.Shared {
			continue
		}
		if key != (locktable.ID{}) && (key == idOf(e.RequestKey) || r.ledger.asked[asked{key: key}] != 0) {
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

// is reports whether a grant is that of a request without a stream.
func (q *queue) is(x *waiting, e *recordpb.Event) bool {
	c, ok := x.to.(*call)
	return ok && len(e.Lease) > 0 && c.command.(locktable.Acquire).Lease == idOf(e.Lease)
}

// place is where a request that is granted stood: as it was told, by the ticket
// that it showed, or at the end.
func (q *queue) place(e *recordpb.Event, own *request) (locktable.Place, bool) {
	for _, x := range q.all {
		switch to := x.to.(type) {
		case *stream:
			if own != nil && x.request == own && x.number == e.Request {
				return x.place, true
			}
		case *call:
			a := to.command.(locktable.Acquire)
			if q.is(x, e) || a.RequestKey != (locktable.ID{}) && a.RequestKey == idOf(e.RequestKey) {
				return x.place, true
			}
		}
	}
	if own != nil && !own.done && own.number == e.Request && own.caller.client.session == own.session {
		return own.ticket(), own.ticket() != (locktable.Place{})
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

// setBack forgets who waits, when nobody does so at the served tenure that is in force now.
func (q *queue) setBack() {
	if now := q.referee.current(); now == nil || now.misled || now.epoch != q.epoch {
		q.epoch, q.all = 0, nil
	}
}
