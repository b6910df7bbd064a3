package sim

import (
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// ledger is the referee's own, naive account of the durable log: who held what,
// and when. Times are when a batch became durable.
type ledger struct {
	referee  *referee
	now      time.Duration
	counter  guard.Token
	sessions map[locktable.ID]*ledgerSession
	entries  map[guard.Token]*entry
	holders  map[string]*entry
	byLease  map[locktable.ID]*entry
	asked    map[asked]guard.Token
	held     int
}

type ledgerSession struct {
	opened, ended time.Duration
	over          bool
	// silent since silentAt, as far as the log knows.
	silent   bool
	silentAt time.Duration
	entries  []*entry
}

// entry is one lease, as the log has it.
type entry struct {
	token          guard.Token
	name           string
	session        locktable.ID
	own            bool
	granted, ended time.Duration
	over           bool
}

// asked is a request that may be granted once.
type asked struct {
	session locktable.ID
	number  uint64
	key     locktable.ID
}

func newLedger(r *referee) *ledger {
	return &ledger{
		referee: r, sessions: map[locktable.ID]*ledgerSession{}, entries: map[guard.Token]*entry{},
		holders: map[string]*entry{}, byLease: map[locktable.ID]*entry{}, asked: map[asked]guard.Token{},
	}
}

func idOf(b []byte) (id locktable.ID) {
	copy(id[:], b)
	return id
}

// apply takes in one durable event and holds it against the invariants.
func (l *ledger) apply(e *recordpb.Event) {
	w := l.referee.world
	session := idOf(e.Session)
	switch e.Kind {
	case recordpb.Kind_KIND_TENURE, recordpb.Kind_KIND_FLOOR:
		if guard.Token(e.Token) < l.counter {
			w.fail("I1", "the counter goes back from %d to %d", l.counter, e.Token)
		}
		l.counter = guard.Token(e.Token)
	case recordpb.Kind_KIND_SESSION_OPENED:
		l.sessions[session] = &ledgerSession{opened: l.now}
	case recordpb.Kind_KIND_SESSION_SILENT, recordpb.Kind_KIND_SESSION_HEARD:
		s := l.sessions[session]
		if s == nil || s.over {
			w.fail("I7", "a session is silent or heard that does not live: %s", session[:])
			return
		}
		s.silent, s.silentAt = e.Kind == recordpb.Kind_KIND_SESSION_SILENT, l.now
	case recordpb.Kind_KIND_SESSION_CLOSED, recordpb.Kind_KIND_SESSION_EXPIRED:
		s := l.sessions[session]
		if s == nil || s.over {
			w.fail("I7", "a session ends that does not live: %s", session[:])
			return
		}
		if e.Kind == recordpb.Kind_KIND_SESSION_EXPIRED {
			l.referee.tally.Expiries++
		}
		l.end(s)
		l.referee.sessionEnds(session)
	case recordpb.Kind_KIND_GRANTED:
		l.grant(e, session)
	case recordpb.Kind_KIND_RELEASED, recordpb.Kind_KIND_BROKEN:
		x := l.entries[guard.Token(e.Token)]
		if x == nil || x.over {
			w.fail("I2", "token %d is released and is not held", e.Token)
			return
		}
		l.drop(x)
		l.referee.dropped(x)
		if s := l.sessions[x.session]; x.own {
			l.end(s)
		}
	}
}

func (l *ledger) end(s *ledgerSession) {
	s.over, s.ended = true, l.now
	for _, x := range s.entries {
		if !x.over {
			l.drop(x)
		}
	}
}

func (l *ledger) drop(x *entry) {
	x.over, x.ended = true, l.now
	l.held--
	if l.holders[x.name] == x {
		delete(l.holders, x.name)
	}
}

func (l *ledger) grant(e *recordpb.Event, session locktable.ID) {
	r := l.referee
	w := r.world
	x := &entry{token: guard.Token(e.Token), session: session, granted: l.now, own: session[0] == 'S'}
	for _, g := range e.Grants {
		x.name = g.Name
	}
	if x.token <= l.counter || x.token <= r.highest && !r.same(x) {
		w.fail("I1", "token %d of %s is granted after token %d", x.token, x.name, max(l.counter, r.highest))
	}
	if h := l.holders[x.name]; h != nil {
		w.fail("I2", "%s is granted with token %d while token %d holds it", x.name, x.token, h.token)
	}
	s := l.sessions[session]
	if s == nil || s.over {
		w.fail("I7", "token %d of %s is granted to a session that does not live", x.token, x.name)
		return
	}
	a := asked{session: session, number: e.Request}
	if len(e.RequestKey) > 0 {
		a = asked{key: idOf(e.RequestKey)}
	}
	if a.number != 0 || a.key != (locktable.ID{}) {
		if before := l.asked[a]; before != 0 {
			w.fail("I8", "one request is granted token %d and token %d", before, x.token)
		}
		l.asked[a] = x.token
	}
	l.counter, r.highest = x.token, max(r.highest, x.token)
	r.ever[x.token] = x
	l.entries[x.token], l.holders[x.name] = x, x
	s.entries = append(s.entries, x)
	if len(e.Lease) > 0 {
		l.byLease[idOf(e.Lease)] = x
	}
	l.held++
	r.granted(x)
}

// heldDuring reports whether a lease was held at some moment of a span.
func (x *entry) heldDuring(from, to time.Duration) bool {
	return x.granted <= to && (!x.over || x.ended >= from)
}

// heldThroughout reports whether it was held all the time.
func (x *entry) heldThroughout(from, to time.Duration) bool {
	return x.granted < from && (!x.over || x.ended > to)
}

// nameHeldDuring reports whether anybody held a name at some moment of a span.
func (l *ledger) nameHeldDuring(name string, from, to time.Duration) bool {
	for _, x := range l.entries {
		if x.name == name && x.heldDuring(from, to) {
			return true
		}
	}
	return false
}
