package locktable

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
)

// waiter is an acquire that waits for its turn.
type waiter struct {
	// ref is nil while the session's stream is detached: the waiter then keeps
	// its place and is passed over.
	ref   Ref
	place Place
	lock  *lock
	asked time.Duration
	// session is nil when the grant will open one of its own.
	session *session
	acquire Acquire
	args    uint64
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Sequence, q.Sequence))
}

// next returns the first waiter that can be granted to.
func (l *lock) next() *waiter {
	for _, w := range l.queue {
		if w.ref != nil {
			return w
		}
	}
	return nil
}

// join puts a waiter in its place.
func (t *Table) join(w *waiter) {
	l := w.lock
	at, _ := slices.BinarySearchFunc(l.queue, w.place, func(x *waiter, p Place) int { return x.place.compare(p) })
	l.queue = slices.Insert(l.queue, at, w)
	t.waiters++
	switch a := &w.acquire; {
	case a.Number != 0:
		put(&w.session.waiting, a.Number, w)
	default:
		t.unary[w.ref] = w
		if w.session != nil {
			put(&w.session.unary, w, struct{}{})
		}
	}
	if key := w.acquire.RequestKey; key != (ID{}) {
		t.outcomes.waiting[key] = w
	}
}

// unjoin takes a waiter out of everything that knows it.
func (t *Table) unjoin(w *waiter) {
	l := w.lock
	at, _ := slices.BinarySearchFunc(l.queue, w.place, func(x *waiter, p Place) int { return x.place.compare(p) })
	for l.queue[at] != w {
		at++
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	t.waiters--
	switch a := &w.acquire; {
	case a.Number != 0:
		delete(w.session.waiting, a.Number)
	default:
		delete(t.unary, w.ref)
		if w.session != nil {
			delete(w.session.unary, w)
		}
	}
	if key := w.acquire.RequestKey; key != (ID{}) {
		delete(t.outcomes.waiting, key)
	}
}

// leave takes a waiter away and lets whoever that unblocks move up.
func (t *Table) leave(now Now, w *waiter, d *Decided) {
	t.unjoin(w)
	t.serve(now, w.lock, d)
}

// serve grants a name to the first waiter that can take it, and forgets a name
// that nobody wants.
func (t *Table) serve(now Now, l *lock, d *Decided) {
	t.settle(l)
	for len(l.holders) == 0 {
		w := l.next()
		if w == nil {
			break
		}
		if !t.mayGrant(now) {
			t.starved = append(t.starved, l)
			break
		}
		t.unjoin(w)
		t.grant(now, w, d)
	}
	t.forget(l)
}

// mayGrant says whether the next token stays within the clock's line. A counter
// that stands beyond it already goes on.
func (t *Table) mayGrant(now Now) bool { return t.counter != Line(now.Wall) }

// grant gives the name to who waited or asked. The token is the counter's next.
func (t *Table) grant(now Now, w *waiter, d *Decided) {
	a := &w.acquire
	s := w.session
	if s == nil {
		if why, err := t.openSession(now, a.Own, a.TTL, a.Label, a.Identity, true, d); err != nil {
			d.refuse(w.ref, a.Number, why, err.Error())
			return
		}
		s = t.sessions[a.Own]
	}
	token := t.counter + 1
	t.emit(d, &recordpb.Event{
		Kind: recordpb.Kind_KIND_GRANTED, Session: s.id.bytes(), Token: uint64(token),
		Grants: []*recordpb.Grant{{Name: w.lock.name, Fence: uint64(token)}},
		Mode:   recordpb.Mode_MODE_EXCLUSIVE, Request: a.Number, Finished: s.finishedUp, Args: w.args,
		Lease: a.Lease.bytes(), RequestKey: a.RequestKey.bytes(), Salt: a.Salt,
		Label: a.Label, AtUnixNano: now.Wall.UnixNano(),
	})
	answer := granted(t.leases[token])
	answer.Waited = max(now.Low-w.asked, 0)
	d.reply(w.ref, a.Number, answer)
}

func granted(l *lease) Granted {
	g := Granted{Token: l.token, TTL: l.session.ttl, Salt: l.salt, Session: l.session.id}
	l.holds(func(h *hold) {
		g.Grants = append(g.Grants, Grant{Name: h.lock.name, Fence: h.fence, Slot: h.slot})
	})
	return g
}

// release ends a lease that is held and serves its names.
func (t *Table) release(now Now, l *lease, d *Decided) {
	kind := recordpb.Kind_KIND_RELEASED
	if l.breaking != nil {
		kind = recordpb.Kind_KIND_BROKEN
	}
	t.conclude(now, l, &recordpb.Event{Kind: kind}, d)
}

// conclude ends a lease by the given event.
func (t *Table) conclude(now Now, l *lease, e *recordpb.Event, d *Decided) {
	s := l.session
	e.Session, e.Token, e.Finished = s.id.bytes(), uint64(l.token), s.finishedUp
	e.AtUnixNano = now.Wall.UnixNano()
	t.emit(d, e)
	l.holds(func(h *hold) { t.serve(now, h.lock, d) })
}

// Work goes on with what the ends of sessions left to do: it takes out at most
// budget leases and grants their names on, and reports whether more is left.
func (t *Table) Work(now Now, budget int, d *Decided) (more bool) {
	for ; budget > 0 && len(t.ended) > 0; budget-- {
		s := t.ended[0]
		l := s.leases.head
		if l == nil {
			t.ended[0] = nil
			t.ended = t.ended[1:]
			continue
		}
		t.drop(l)
		l.holds(func(h *hold) { t.serve(now, h.lock, d) })
	}
	if len(t.starved) > 0 && t.mayGrant(now) {
		again := t.starved
		t.starved = nil
		for _, l := range again {
			t.serve(now, l, d)
		}
	}
	return len(t.ended) > 0 || len(t.starved) > 0
}

// Settle takes out every lease of an ended session. It ends a replay, when
// there is nobody to grant to.
func (t *Table) Settle() {
	for _, s := range t.ended {
		for l := s.leases.head; l != nil; l = s.leases.head {
			t.drop(l)
			l.holds(func(h *hold) { t.forget(h.lock) })
		}
	}
	t.ended = nil
}

// holder describes who has a name.
func (t *Table) holder(now Now, l *lease) Holder {
	s := l.session
	s.timing()
	return Holder{
		Token: l.token, Handle: Handle(t.secret, s.id), Label: cmp.Or(l.label, s.label),
		Since: time.Unix(0, l.since), ExpiresIn: min(max(s.deadline-now.High, 0), s.ttl),
		Slot: l.first.slot, Shared: l.mode == recordpb.Mode_MODE_SHARED, Breaking: l.breaking != nil,
	}
}

// holderToken is the token under which a name is held, 0 when it is free.
func (l *lock) holderToken() guard.Token {
	if len(l.holders) == 0 {
		return 0
	}
	return l.holders[0].token
}
