package locktable

import (
	"container/heap"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
)

const (
	// SuspectFor is how long a session whose time is up is still given to be
	// heard, and SuspectTurns over how many complete turns at least.
	SuspectFor   = 250 * time.Millisecond
	SuspectTurns = 3
	// TenureGrace is when a session that was not heard in a tenure is logged
	// silent for the first time.
	TenureGrace = 2 * time.Second
	// RenewalsPerTTL is how often a client renews within its TTL.
	RenewalsPerTTL = 6
)

// basis is the time that a session has at the start of a tenure: what was
// logged to be left of it, or all.
func (s *session) basis() time.Duration {
	if s.silent {
		return s.left
	}
	return s.ttl
}

// timing gives a session its deadline for this tenure when it has none yet.
func (s *session) timing() {
	if !s.timed {
		s.timed = true
		s.deadline, s.quiet, s.silentAt = s.basis(), 0, TenureGrace
	}
}

// touch notes that a session was heard. A silent one is logged as heard before
// anything about it can be answered.
func (t *Table) touch(now Now, s *session, d *Decided) { t.touchFor(now, s, 0, d) }

// touchFor is touch by a message that asks for a TTL; 0: it asks for none.
func (t *Table) touchFor(now Now, s *session, ttl time.Duration, d *Decided) {
	// First: what a silent session has left bounds what it was promised.
	s.timing()
	if s.silent {
		t.emit(d, &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_HEARD, Session: s.id.bytes()})
	}
	t.want(now, s, ttl, d)
	t.renew(now, s)
	t.roll.heard(t, s, d)
}

func (t *Table) renew(now Now, s *session) {
	s.timing()
	s.deadline = max(s.deadline, now.High+s.promise())
	s.quiet = now.High
	s.silentAt = now.High + 2*s.promise()/RenewalsPerTTL
	if s.suspect != 0 {
		s.suspect = 0
		t.due.add(s.next(), appointment{s: s})
	}
}

// next is when a session must be looked at.
func (s *session) next() time.Duration {
	at := min(s.silentAt, s.deadline)
	if s.lower != 0 {
		at = min(at, s.promised)
	}
	return at
}

// Tick moves sessions on whose time has come, at most budget of each kind: silent ones
// are logged, those whose TTL has run out become suspect, and suspects that stay silent
// end. complete says that every message that was there when the turn began has been
// handled. Tick reports whether more is due now.
func (t *Table) Tick(now Now, complete bool, budget int, d *Decided) (more bool) {
	// First: the turn in which a session becomes suspect is not one of those it
	// is given.
	if complete {
		t.suspects.turn++
	}
	for n := 0; len(t.due.items) > 0 && t.due.items[0].at <= now.Low; n++ {
		if n == budget {
			more = true
			break
		}
		switch x := t.due.next(); {
		case x.closure != nil:
			x.closure.check(t, now, d)
		case x.kept != nil:
			t.removeWaiter(now, x.kept, d)
		default:
			t.checkSession(now, x.s, d)
		}
	}
	t.outcomes.turn(now, budget, func(x *outcome) { t.charge(x.identity, usage{ids: -1}) })
	for n := 0; ; n++ {
		s := t.suspects.next(now)
		if s == nil {
			return more
		}
		if n == budget {
			return true
		}
		t.suspects.pop()
		if s.suspect != 0 && !s.over {
			t.finishSession(now, s, recordpb.Kind_KIND_SESSION_EXPIRED, Closed{Reason: Gone, Message: "the session expired"}, d)
		}
	}
}

// Timed reports whether anything of the table ends with time: a session, what closes a
// name, the place of a waiter that is gone. Otherwise Tick has nothing to do.
func (t *Table) Timed() bool { return len(t.sessions) > 0 || len(t.due.items) > 0 }

// checkSession handles one session whose entry on the agenda has come up.
func (t *Table) checkSession(now Now, s *session, d *Decided) {
	if s.over {
		return
	}
	s.timing()
	if s.connected > 0 && min(s.silentAt, s.deadline) <= now.Low {
		// A connection waits for it, which is heard from as long as it stands.
		t.touch(now, s, d)
	}
	if s.deadline <= now.Low {
		t.suspects.add(now, s)
		return
	}
	t.lower(now, s, d)
	if s.silentAt <= now.Low {
		t.emit(d, &recordpb.Event{
			Kind: recordpb.Kind_KIND_SESSION_SILENT, Session: s.id.bytes(), LeftNano: int64(s.deadline - now.Low),
		})
		// Again when the silence has doubled.
		s.silentAt = now.High + max(now.High-s.quiet, time.Millisecond)
	}
	t.due.add(s.next(), appointment{s: s})
}

// suspects holds the sessions whose time is up, in the order in which it was.
// An entry whose session was heard since is dead.
type suspects struct {
	turn, drawn uint64
	items       []suspect
}

type suspect struct {
	s     *session
	mark  uint64
	since time.Duration
	turn  uint64
}

func (q *suspects) add(now Now, s *session) {
	q.drawn++
	s.suspect = q.drawn
	q.items = append(q.items, suspect{s: s, mark: q.drawn, since: now.Low, turn: q.turn})
}

// next returns the first session that has been suspect for long enough.
func (q *suspects) next(now Now) *session {
	for len(q.items) > 0 {
		x := q.items[0]
		if x.s.suspect != x.mark || x.s.over {
			q.pop()
			continue
		}
		if now.Low < x.since+SuspectFor || q.turn < x.turn+SuspectTurns {
			return nil
		}
		return x.s
	}
	return nil
}

func (q *suspects) pop() {
	q.items[0] = suspect{}
	q.items = q.items[1:]
}

// agenda orders sessions, and the closures of names, by the time of their next check. A
// live session that is not suspect has one entry, and so has a closure. An entry may come
// up early and is then put back.
type agenda struct {
	items []appointment
	drawn uint64
}

type appointment struct {
	at    time.Duration
	order uint64
	s     *session
	// closure of a name.
	closure *closure
	// kept is a waiter whose place is kept until then.
	kept *waiter
}

func (a *agenda) add(at time.Duration, x appointment) {
	a.drawn++
	x.at, x.order = at, a.drawn
	heap.Push(a, x)
}

func (a *agenda) next() appointment { return heap.Pop(a).(appointment) }

// remove drops an entry, given its place. One that is no longer of use could
// otherwise be kept for hours.
func (a *agenda) remove(slot int) {
	if slot > 0 {
		heap.Remove(a, slot-1)
	}
}

// slot is where the place of an entry is kept.
func (x *appointment) slot() *int {
	switch {
	case x.closure != nil:
		return &x.closure.slot
	case x.kept != nil:
		return &x.kept.slot
	}
	return &x.s.slot
}

func (a *agenda) Len() int { return len(a.items) }

func (a *agenda) Less(i, j int) bool {
	x, y := a.items[i], a.items[j]
	return x.at < y.at || x.at == y.at && x.order < y.order
}

func (a *agenda) Swap(i, j int) {
	a.items[i], a.items[j] = a.items[j], a.items[i]
	*a.items[i].slot(), *a.items[j].slot() = i+1, j+1
}

func (a *agenda) Push(x any) {
	a.items = append(a.items, x.(appointment))
	*a.items[len(a.items)-1].slot() = len(a.items)
}

func (a *agenda) Pop() any {
	last := len(a.items) - 1
	x := a.items[last]
	a.items[last] = appointment{}
	a.items = a.items[:last]
	*x.slot() = 0
	return x
}
