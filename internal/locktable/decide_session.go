package locktable

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

// ReportedAheadMax bounds how far a told token may lie ahead of the wall clock: one
// beyond it would use up the counter on somebody's word.
const ReportedAheadMax = 24 * time.Hour

// emit applies an event and adds it to what was decided. What the table itself
// decided must fit: a wrong grant would be worse than a crash.
func (t *Table) emit(d *Decided, e *recordpb.Event) {
	t.changes(d, e)
	if err := t.Apply(e); err != nil {
		panic(err)
	}
	d.Events = append(d.Events, e)
}

// Found begins a cell.
func (t *Table) Found(cell string, secret []byte, d *Decided) {
	t.emit(d, &recordpb.Event{Kind: recordpb.Kind_KIND_CELL, Cell: cell, Secret: secret})
}

// Open begins a tenure: the counter becomes the largest of its successor, the
// clock's line and floor. Times count from here.
func (t *Table) Open(epoch uint64, wall time.Time, floor guard.Token, d *Decided) {
	opened := max(t.counter+1, CounterLimit(wall), floor)
	t.emit(d, &recordpb.Event{
		Kind: recordpb.Kind_KIND_TENURE, Epoch: epoch, Token: uint64(opened), AtUnixNano: wall.UnixNano(),
	})
}

func (c Attach) decide(t *Table, now Now, d *Decided) {
	rolled, err := t.reportToken(now, c.Cell, c.Highest, d)
	if err != nil {
		d.reply(c.Ref, 0, Closed{Reason: RolledBack, Message: err.Error()})
		return
	}
	if c.Session == (ID{}) {
		if why, err := t.openSession(now, c.New, c.TTL, c.Label, c.Identity, false, d); err != nil {
			d.reply(c.Ref, 0, Closed{Reason: why, Message: err.Error()})
			return
		}
		s := t.sessions[c.New]
		s.stream, s.generation = c.Ref, c.Generation
		d.reply(c.Ref, 0, Attached{TTL: s.promise(), Lost: c.Held, RolledBack: rolled, Session: s.id})
		return
	}
	s := t.sessions[c.Session]
	switch {
	case s == nil || s.identity != c.Identity:
		d.reply(c.Ref, 0, Closed{Reason: Gone, Message: sessionGone})
		return
	case s.own:
		d.reply(c.Ref, 0, Closed{Reason: Conflict, Message: ownSession})
		return
	case c.Generation <= s.generation:
		d.reply(c.Ref, 0, Closed{Reason: Conflict, Message: fmt.Sprintf(
			"generation %d of the stream is not above %d", c.Generation, s.generation)})
		return
	case c.overtaken(s):
		d.reply(c.Ref, 0, Closed{Reason: Conflict, Message: fmt.Sprintf(
			"the greeting is older than what the session has asked for since: its next request is %d", c.Next)})
		return
	}
	if err := wantedTTL(c.TTL); err != nil {
		d.reply(c.Ref, 0, Closed{Reason: Invalid, Message: err.Error()})
		return
	}
	d.reply(s.stream, 0, Closed{Reason: Conflict, Message: "another stream of the session took over"})
	s.stream, s.generation, s.asked = c.Ref, c.Generation, 0
	t.roll.rides(now, s, c.Riding)
	t.touchFor(now, s, c.TTL, d)
	rode, newRide := t.rode(s, c.Riding)
	have, lost := t.part(s, c.Held)
	t.keep(now, s, have, c, d)
	d.reply(c.Ref, 0, Attached{TTL: s.promise(), Lost: lost, RolledBack: rolled, Session: s.id, Rode: rode, NewRide: newRide})
	for l := s.leases.head; l != nil; l = l.next {
		if l.breaking != nil {
			d.reply(c.Ref, 0, Notice{Token: l.token, Reason: l.breaking.reason})
		}
	}
}

// overtaken reports whether a greeting is older than something that its session has
// requested. Generations are in no record, so they do not show that after a take-over:
//
//  1. A client greets standby B, gives that attempt up, and attaches to A again.
//  2. A grants it a lease under a new number, and renews its session.
//  3. B takes over. The greeting of 1 arrives. It names that lease neither as held
//     nor as wanted, and would release it while its holder trusts it (I5).
//
// The client trusts a lease if a greeting names it, or if it was requested after the
// greeting, under the number that the greeting states as the next, or a higher one.
func (c *Attach) overtaken(s *session) bool {
	if c.Next == 0 {
		return false
	}
	if s.finished > c.Next {
		return true
	}
	for l := s.leases.head; l != nil; l = l.next {
		if l.request >= c.Next {
			return true
		}
	}
	return false
}

const (
	sessionGone = "no such session: it expired, was closed, or never was"
	ownSession  = "the session belongs to one lease and ends with it; open a session to hold more"
)

// keep releases what a returning client no longer wants. A lease whose answer was lost
// is identified by its request's number. Waiters are removed first, so that none of
// them is granted a name that is released here. A client that does not state its next
// number may have requested anything since: no lease of it is released.
func (t *Table) keep(now Now, s *session, have map[guard.Token]bool, c Attach, d *Decided) {
	want := map[uint64]bool{}
	for _, n := range c.Wanted {
		if s.granted[n] != nil || s.waiting[n] != nil {
			want[n] = true
		}
	}
	t.unobserveAll(s)
	all := s.detachWaiters()
	for _, w := range all {
		if !want[w.acquire.Number] {
			t.unjoin(w)
		}
	}
	t.serveAll(now, all, d)
	for l := s.leases.head; l != nil; {
		next := l.next
		if l.request != 0 && l.request < c.Next && !want[l.request] && !have[l.token] {
			t.release(now, l, d)
		}
		l = next
	}
}

// waitingBelow returns the waiters whose callers have given up: those numbered
// from low, below which there is none, up to n.
func (s *session) waitingBelow(low, n uint64) (all []*waiter) {
	if n-low < uint64(len(s.waiting)) {
		for ; low < n; low++ {
			if w := s.waiting[low]; w != nil {
				all = append(all, w)
			}
		}
		return all
	}
	for _, k := range sortedKeys(s.waiting) {
		if k < n {
			all = append(all, s.waiting[k])
		}
	}
	return all
}

// detachWaiters has the waiters of the session's streams passed over. It returns
// them: the waiter behind one may be next.
func (s *session) detachWaiters() []*waiter {
	all := make([]*waiter, 0, len(s.waiting))
	for _, n := range sortedKeys(s.waiting) {
		w := s.waiting[n]
		w.attach(nil)
		all = append(all, w)
	}
	return all
}

// part parts the tokens that a client says it holds into those that it does and
// those that it has lost.
func (t *Table) part(s *session, held []uint64) (have map[guard.Token]bool, lost []uint64) {
	have = map[guard.Token]bool{}
	for _, n := range held {
		token := guard.Token(n)
		if l := t.leases[token]; l != nil && l.session == s {
			have[token] = true
		} else {
			lost = append(lost, n)
		}
	}
	return have, lost
}

// reportToken takes in the highest token that a client has seen, and says whether a
// log that is gone had granted it.
func (t *Table) reportToken(now Now, cell string, told guard.Token, d *Decided) (rolled bool, err error) {
	if cell != t.cell || told == 0 {
		return false, nil
	}
	if told > t.counter {
		if limit := CounterLimit(now.Wall.Add(ReportedAheadMax)); told > limit {
			return false, fmt.Errorf("token %d was told, which lies more than %v ahead of the clock; "+
				"if it is genuine, serve with --token-floor %d", told, ReportedAheadMax, told)
		}
		t.emit(d, &recordpb.Event{Kind: recordpb.Kind_KIND_FLOOR, Token: uint64(told)})
		rolled = true
	} else {
		i, _ := slices.BinarySearchFunc(t.tenures, told, func(x tenure, v guard.Token) int {
			return cmp.Compare(x.opened, v)
		})
		switch {
		case i == 0:
			// Before its first tenure a log granted nothing: the cell was begun
			// anew. One that has forgotten tenures cannot tell.
			rolled = len(t.tenures) > 0 && len(t.tenures) < TenuresKept
		case i < len(t.tenures):
			rolled = told > t.tenures[i-1].last && told <= t.tenures[i].opened
		}
	}
	t.rolledBack = t.rolledBack || rolled
	return rolled, nil
}

func (t *Table) openSession(now Now, id ID, ttl time.Duration, label, identity string, own bool, d *Decided) (Reason, error) {
	if err := bounds.ValidTTL(ttl); err != nil {
		return Invalid, err
	}
	if err := bounds.ValidLabel(label); err != nil {
		return Invalid, err
	}
	if len(t.sessions) >= t.limits.Sessions {
		return Exhausted, fmt.Errorf("the cell has %d sessions, its limit", len(t.sessions))
	}
	if why := t.overdrawn(identity, usage{sessions: 1}); why != "" {
		return Exhausted, errors.New(why)
	}
	if t.sessions[id] != nil {
		return Conflict, fmt.Errorf("the session lives already")
	}
	t.emit(d, &recordpb.Event{
		Kind: recordpb.Kind_KIND_SESSION_OPENED, Session: id.bytes(), TtlNano: int64(ttl),
		Label: label, Identity: identity, Own: own, AtUnixNano: now.Wall.UnixNano(),
	})
	t.renew(now, t.sessions[id])
	return "", nil
}

func (c OpenSession) decide(t *Table, now Now, d *Decided) {
	if why, err := t.openSession(now, c.New, c.TTL, c.Label, c.Identity, false, d); err != nil {
		d.refuse(c.Ref, 0, why, err.Error())
		return
	}
	d.reply(c.Ref, 0, Opened{TTL: c.TTL})
}

func (c Detach) decide(t *Table, now Now, d *Decided) {
	s := t.sessions[c.Session]
	if s == nil || s.generation != c.Generation || s.stream != c.Ref {
		return
	}
	s.stream = nil
	t.unobserveAll(s)
	t.serveAll(now, s.detachWaiters(), d)
}

func (c Heard) decide(t *Table, now Now, d *Decided) {
	s := t.onStream(c.Session, c.Generation, c.Ref, d)
	if s == nil {
		return
	}
	if err := wantedTTL(c.TTL); err != nil {
		d.reply(c.Ref, 0, Closed{Reason: Invalid, Message: err.Error()})
		return
	}
	ttl := c.TTL
	if ttl != 0 && c.Renewal <= s.asked {
		// A later one has asked already.
		ttl = 0
	}
	if ttl != 0 {
		s.asked = c.Renewal
	}
	t.touchFor(now, s, ttl, d)
	delete(t.returned, s)
	if c.Finished > s.finishedUp {
		t.finishCancelled(s, c.Finished)
		t.removeWaiters(now, s.waitingBelow(s.finishedUp, c.Finished), d)
		s.finishedUp = c.Finished
	}
	if c.Renewal != 0 {
		d.reply(c.Ref, 0, Renewed{Number: c.Renewal, Session: s.id, TTL: s.promise()})
	}
}

// onStream finds the session of a stream. It is nil when the session is over, which the
// stream is told, and when another stream had or took the session, which it was told
// then. The last message of a stream counts although the stream has ended meanwhile.
func (t *Table) onStream(id ID, generation uint64, ref Ref, d *Decided) *session {
	s := t.sessions[id]
	if s == nil {
		d.reply(ref, 0, Closed{Reason: Gone, Message: sessionGone})
		return nil
	}
	if s.generation != generation || s.stream != nil && s.stream != ref {
		return nil
	}
	return s
}

func (c Renew) decide(t *Table, now Now, d *Decided) {
	s := t.sessions[c.Session]
	gone := sessionGone
	var a Renewed
	if c.Lease != (ID{}) {
		gone, s = leaseGone, nil
		if l := t.byID[c.Lease]; l != nil && !l.session.over {
			s, a.ByLease = l.session, true
			if l.breaking != nil {
				a.Breaking, a.Reason = true, l.breaking.reason
			}
		}
	}
	if s == nil || s.identity != c.Identity {
		d.refuse(c.Ref, 0, Gone, gone)
		return
	}
	if err := wantedTTL(c.TTL); err != nil {
		d.refuse(c.Ref, 0, Invalid, err.Error())
		return
	}
	t.touchFor(now, s, c.TTL, d)
	a.Session, a.TTL = s.id, s.promise()
	d.reply(c.Ref, 0, a)
}

func (c Ping) decide(_ *Table, _ Now, d *Decided) { d.reply(c.Ref, 0, Alive{}) }

func (c Close) decide(t *Table, now Now, d *Decided) {
	s := t.sessions[c.Session]
	if s == nil || s.identity != c.Identity {
		d.refuse(c.Ref, 0, Gone, sessionGone)
		return
	}
	if c.GivenUp {
		t.roll.loses(t, s, d)
	}
	t.finishSession(now, s, recordpb.Kind_KIND_SESSION_CLOSED, Closed{Message: "closed as asked"}, d)
	d.reply(c.Ref, 0, Done{Of: AskedClose})
}

// finishSession ends a session, tells its stream, and lets the waiters behind
// its waiters move up. What it held is served by Work.
func (t *Table) finishSession(now Now, s *session, kind recordpb.Kind, why Closed, d *Decided) {
	if t.endsTo != nil && kind == recordpb.Kind_KIND_SESSION_EXPIRED {
		d.reply(t.endsTo, 0, t.expired(s))
	}
	if kind == recordpb.Kind_KIND_SESSION_EXPIRED {
		t.roll.loses(t, s, d)
	}
	t.emit(d, &recordpb.Event{Kind: kind, Session: s.id.bytes(), AtUnixNano: now.Wall.UnixNano()})
	t.unobserveAll(s)
	all := s.unaryWaiters()
	for _, w := range all {
		d.refuse(w.ref, 0, Gone, sessionGone)
	}
	t.removeWaiters(now, append(all, s.detachWaiters()...), d)
	d.reply(s.stream, 0, why)
	s.stream = nil
}

func (s *session) unaryWaiters() []*waiter {
	all := make([]*waiter, 0, len(s.unary))
	for w := range s.unary { //tidy:unordered sorted below
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *waiter) int { return a.place.compare(b.place) })
	return all
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	keys := make([]K, 0, len(m))
	for k := range m { //tidy:unordered sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
