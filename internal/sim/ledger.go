package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// ledger is the referee's own, naive account of the durable log: who held what,
// and when. Times are when a batch became durable.
type ledger struct {
	referee *referee
	now     time.Duration
	// at is when the event was decided.
	at       time.Duration
	counter  guard.Token
	sessions map[locktable.ID]*ledgerSession
	entries  map[guard.Token]*entry
	holders  map[string][]*entry
	// closed are the lock-delays of names, claimOnly what riders leave.
	closed, claimOnly map[string][]closing
	byLease           map[locktable.ID]*entry
	asked             map[asked]guard.Token
	held              int
}

type ledgerSession struct {
	opened, ended time.Duration
	over          bool
	// silent since silentAt, as far as the log knows.
	silent   bool
	silentAt time.Duration
	// ttl, and left of it when silent; basis is what it began the tenure with.
	ttl, left, basis time.Duration
	entries          []*entry
}

// entry is one lease, as the log has it.
type entry struct {
	token          guard.Token
	name           string
	grants         []*recordpb.Grant
	mode           locktable.Mode
	slots          uint32
	delay          time.Duration
	claims         bool
	ride           time.Duration
	session        locktable.ID
	own            bool
	granted, ended time.Duration
	over           bool
	// forced: it ended although its holder believes in it.
	forced bool
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
		holders: map[string][]*entry{}, closed: map[string][]closing{}, claimOnly: map[string][]closing{},
		byLease: map[locktable.ID]*entry{}, asked: map[asked]guard.Token{},
	}
}

func idOf(b []byte) (id locktable.ID) {
	copy(id[:], b)
	return id
}

// apply takes in one durable event and holds it against the invariants.
func (l *ledger) apply(e *recordpb.Event) {
	defer l.referee.observers.changed(l)
	w := l.referee.world
	session := idOf(e.Session)
	switch e.Kind {
	case recordpb.Kind_KIND_TENURE, recordpb.Kind_KIND_FLOOR:
		if guard.Token(e.Token) < l.counter {
			w.fail("I1", "the counter goes back from %d to %d", l.counter, e.Token)
		}
		l.counter = guard.Token(e.Token)
		if e.Kind == recordpb.Kind_KIND_TENURE {
			l.begin()
		}
	case recordpb.Kind_KIND_SESSION_OPENED:
		l.sessions[session] = &ledgerSession{opened: l.now, ttl: time.Duration(e.TtlNano), basis: time.Duration(e.TtlNano)}
	case recordpb.Kind_KIND_SESSION_SILENT, recordpb.Kind_KIND_SESSION_HEARD:
		s := l.sessions[session]
		if s == nil || s.over {
			w.fail("I7", "a session is silent or heard that does not live: %s", session[:])
			return
		}
		s.silent, s.silentAt = e.Kind == recordpb.Kind_KIND_SESSION_SILENT, l.now
		s.left = time.Duration(e.LeftNano)
	case recordpb.Kind_KIND_SESSION_TTL:
		s := l.sessions[session]
		if s == nil || s.over {
			w.fail("I7", "a session has another TTL that does not live: %s", session[:])
			return
		}
		l.referee.promises.logs(session, s, time.Duration(e.TtlNano))
	case recordpb.Kind_KIND_SESSION_CLOSED, recordpb.Kind_KIND_SESSION_EXPIRED:
		s := l.sessions[session]
		if s == nil || s.over {
			w.fail("I7", "a session ends that does not live: %s", session[:])
			return
		}
		if e.Kind == recordpb.Kind_KIND_SESSION_EXPIRED {
			l.referee.tally.Expiries++
			l.referee.times.expires(session, s)
		}
		l.end(s, e.Kind == recordpb.Kind_KIND_SESSION_EXPIRED)
		l.referee.sessionEnds(session)
	case recordpb.Kind_KIND_NAME_CLOSED:
		shuts(l.closed[e.Name], time.Duration(e.LeftNano))
	case recordpb.Kind_KIND_NAME_OPENED:
		l.reopened(l.closed, e.Name)
	case recordpb.Kind_KIND_NAME_CLAIM_ONLY:
		if len(l.claimOnly[e.Name]) == 0 {
			w.fail("ride", "%s is claim-only, and no rider left it so", e.Name)
		}
		shuts(l.claimOnly[e.Name], time.Duration(e.LeftNano))
	case recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER:
		l.reopened(l.claimOnly, e.Name)
	case recordpb.Kind_KIND_GRANTED, recordpb.Kind_KIND_GRANTED_RIDER:
		l.grant(e, session)
	case recordpb.Kind_KIND_RELEASED, recordpb.Kind_KIND_BROKEN:
		x := l.entries[guard.Token(e.Token)]
		if x == nil || x.over {
			w.fail("I2", "token %d is released and is not held", e.Token)
			return
		}
		x.forced = e.Forced
		l.drop(x, e.Forced)
		l.referee.dropped(x)
		if s := l.sessions[x.session]; x.own {
			l.end(s, false)
		}
	}
}

func (l *ledger) end(s *ledgerSession, expired bool) {
	s.over, s.ended = true, l.now
	for _, x := range s.entries {
		if !x.over {
			l.drop(x, expired)
		}
	}
}

// drop ends a lease; shut: its lock-delay begins.
func (l *ledger) drop(x *entry, shut bool) {
	x.over, x.ended = true, l.now
	l.held--
	for _, g := range x.grants {
		l.holders[g.Name] = slices.DeleteFunc(l.holders[g.Name], func(y *entry) bool { return y == x })
		if shut && x.delay > 0 {
			l.shut(l.closed, g.Name, x.delay)
		}
		if shut && x.ride > 0 {
			l.shut(l.claimOnly, g.Name, x.ride)
			l.referee.tally.ClaimOnly++
		}
	}
}

func (l *ledger) grant(e *recordpb.Event, session locktable.ID) {
	r := l.referee
	w := r.world
	x := &entry{
		token: guard.Token(e.Token), session: session, granted: l.now, own: session[0] == 'S', grants: e.Grants,
		mode: modeOf[e.Mode], slots: e.Slots, delay: time.Duration(e.LockDelayNano), claims: e.Claims,
		ride: time.Duration(e.RideThroughNano),
	}
	var names []string
	for _, g := range e.Grants {
		names = append(names, g.Name)
	}
	x.name = strings.Join(names, "+")
	switch {
	case x.token > max(l.counter, r.highest) || x.token > l.counter && r.same(x):
	case x.token > l.counter && r.before():
		r.tally.Late++
	default:
		w.fail("I1", "token %d of %s is granted after token %d", x.token, x.name, max(l.counter, r.highest))
	}
	l.fits(x)
	if x.ride > 0 && (!x.claims || x.mode == locktable.Shared || len(x.grants) != 1) {
		w.fail("ride", "token %d of %s may ride, and is shared, or has several names, or does not claim", x.token, x.name)
	}
	l.open(x)
	r.waiters.granted(e, x)
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
	l.entries[x.token] = x
	s.entries = append(s.entries, x)
	if len(e.Lease) > 0 {
		r.grantedToNobody(x, idOf(e.Lease))
		l.byLease[idOf(e.Lease)] = x
	}
	l.held++
	r.granted(x)
}

// heldDuring reports whether a lease was held at some moment of a span; one that is
// not in the log was not.
func (x *entry) heldDuring(from, to time.Duration) bool {
	return x != nil && x.granted <= to && (!x.over || x.ended >= from)
}

// heldThroughout reports whether it was held all the time.
func (x *entry) heldThroughout(from, to time.Duration) bool {
	return x != nil && x.granted < from && (!x.over || x.ended > to)
}

// nameHeldDuring reports whether anybody held a name at some moment of a span.
func (l *ledger) nameHeldDuring(name string, from, to time.Duration) bool {
	for _, x := range l.entries {
		if x.has(name) && x.heldDuring(from, to) {
			return true
		}
	}
	return false
}
