package locktable

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
)

// waiter is an acquire that waits for its turn, in the queue of each of its
// names at the same place.
type waiter struct {
	// ref is nil while the session's stream, or the connection of a request without a
	// stream, is detached. The waiter then keeps its place and is passed over.
	ref   Ref
	place Place
	locks []*lock
	asked time.Duration
	// session is nil when the grant will open one of its own.
	session *session
	acquire Acquire
	args    uint64
	// blockedBy is the name that it could not have when it was last looked at: the
	// first to ask about, since thousands may wait for the same.
	blockedBy *lock
	// slot is where it stands on the agenda while its place is kept.
	slot int
	// keptOut counts its names that are claim-only, if it does not claim. passed: it has
	// become passed over for that, and its other names have not been served since. It was
	// told that it is kept out until toldUntil.
	keptOut   int
	passed    bool
	toldUntil time.Duration

	one [1]*lock
}

func (w *waiter) shared() bool { return w.acquire.Mode == Shared }

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Sequence, q.Sequence))
}

// join puts a waiter in its place in every queue.
func (t *Table) join(w *waiter) {
	for _, l := range w.locks {
		if l.unused() {
			l.slots = w.acquire.Slots
		}
		at, _ := slices.BinarySearchFunc(l.queue, w.place, func(x *waiter, p Place) int { return x.place.compare(p) })
		l.contended().queue = slices.Insert(l.queue, at, w)
		if l.claimOnly != nil && !w.acquire.Claims {
			w.keptOut++
		}
	}
	w.moved()
	t.waiters++
	t.charge(w.acquire.Identity, w.usage())
	switch a := &w.acquire; {
	case a.Number != 0:
		put(&w.session.waiting, a.Number, w)
	default:
		t.unary[w.ref] = w
		if w.session != nil {
			put(&w.session.unary, w, struct{}{})
			w.session.connected++
		}
	}
	if key := w.acquire.RequestKey; key != (ID{}) {
		t.outcomes.waiting[key] = w
	}
}

// unjoin takes a waiter out of everything that knows it.
func (t *Table) unjoin(w *waiter) {
	for _, l := range w.locks {
		at, _ := slices.BinarySearchFunc(l.queue, w.place, func(x *waiter, p Place) int { return x.place.compare(p) })
		for l.queue[at] != w {
			at++
		}
		l.queue = cut(l.queue, at)
	}
	w.moved()
	t.waiters--
	t.charge(w.acquire.Identity, w.usage().negative())
	switch a := &w.acquire; {
	case a.Number != 0:
		delete(w.session.waiting, a.Number)
	default:
		t.disconnect(w)
		t.due.remove(w.slot)
		if w.session != nil {
			delete(w.session.unary, w)
		}
	}
	if key := w.acquire.RequestKey; key != (ID{}) {
		delete(t.outcomes.waiting, key)
	}
}

// connect has a connection stand for a waiter without a stream, whose one before
// has ended or is told so.
func (t *Table) connect(w *waiter, ref Ref) {
	t.disconnect(w)
	t.due.remove(w.slot)
	w.attach(ref)
	t.unary[ref] = w
	if w.session != nil {
		w.session.connected++
	}
}

// disconnect forgets the connection of a waiter without a stream, if there is one.
func (t *Table) disconnect(w *waiter) {
	if w.ref == nil {
		return
	}
	delete(t.unary, w.ref)
	if w.session != nil {
		w.session.connected--
	}
}

// removeWaiter removes a waiter and serves those that it blocked.
func (t *Table) removeWaiter(now Now, w *waiter, d *Decided) {
	t.unjoin(w)
	var locks []*lock
	for _, l := range w.locks {
		if l.unblockedBy(w) {
			locks = append(locks, l)
		} else {
			t.forget(l)
		}
	}
	t.serve(now, nil, d, locks...)
}

// removeWaiters removes waiters, all of them before any other is served, since one of
// them could be next in a queue behind another. It removes the latest first, which
// moves the fewest.
func (t *Table) removeWaiters(now Now, all []*waiter, d *Decided) {
	for _, w := range slices.Backward(all) {
		t.unjoin(w)
	}
	t.serveAll(now, all, d)
}

// serveAll serves whatever waiters wait for, or waited.
func (t *Table) serveAll(now Now, all []*waiter, d *Decided) {
	var locks []*lock
	// Once each: to serve a name may take a walk through its queue.
	seen := map[*lock]bool{}
	for _, w := range all {
		for _, l := range w.locks {
			if seen[l] {
				continue
			}
			if !l.unblockedBy(w) {
				t.forget(l)
				continue
			}
			seen[l] = true
			locks = append(locks, l)
		}
	}
	t.serve(now, nil, d, locks...)
}

// takes reports whether a name has room for a waiter, regardless of other waiters.
func (l *lock) takes(w *waiter) bool {
	if l.closedTo(&w.acquire) {
		return false
	}
	switch n := len(l.holders); w.acquire.Mode {
	case Slots:
		return n < int(l.slots) || l.idle()
	case Shared:
		return n == 0 || l.holders[0].mode == Shared
	default:
		return n == 0
	}
}

// attach has a waiter stand in line for ref; nil: be passed over.
func (w *waiter) attach(ref Ref) {
	w.ref = ref
	w.moved()
}

// grantable reports whether a waiter can have all its names now. Room is looked
// for first, which takes no walk through a queue.
func (w *waiter) grantable() bool {
	if l := w.blockedBy; l != nil && !(l.takes(w) && l.turnOf(w)) {
		return false
	}
	for _, l := range w.locks {
		if !l.takes(w) {
			w.blockedBy = l
			return false
		}
	}
	for _, l := range w.locks {
		if !l.turnOf(w) {
			w.blockedBy = l
			return false
		}
	}
	return true
}

// serve grants names to their waiters as far as possible, and forgets names that are
// not used. It also serves what one grant or departure unblocks elsewhere, one name
// after the other.
func (t *Table) serve(now Now, l *lock, d *Decided, more ...*lock) {
	if l != nil {
		t.toServe = append(t.toServe, l)
	}
	t.toServe = append(t.toServe, more...)
	if t.serving {
		return
	}
	t.serving = true
	for i := 0; i < len(t.toServe); i++ {
		t.pass(now, t.toServe[i], d)
	}
	clear(t.toServe)
	t.toServe, t.serving = t.toServe[:0], false
}

// pass goes through the queue of a name once.
func (t *Table) pass(now Now, l *lock, d *Decided) {
	t.clean(l)
	t.tellClaimOnly(now, l, d)
	for i := 0; i < len(l.queue) && !l.full(); {
		w := l.queue[i]
		if len(t.ended) > 0 {
			for _, k := range w.locks {
				if k != l {
					t.clean(k)
				}
			}
		}
		switch {
		case w.passedOver():
			i++
			continue
		case w.grantable():
			if !t.mayGrant(now) {
				t.deferServing(l)
				t.show(l, d)
				return
			}
			t.unjoin(w)
			t.grant(now, w, d)
			for _, k := range w.locks {
				if k != l {
					t.toServe = append(t.toServe, k)
				}
			}
			continue
		case w.shared():
			// It may be held up elsewhere; shared ones behind it may pass.
			i++
			continue
		}
		break
	}
	t.show(l, d)
	t.forget(l)
}

// clean removes from a name what has ended, and serves what that frees.
func (t *Table) clean(l *lock) {
	n := len(l.holders)
	if others := t.removeEnded(l); len(l.holders) < n {
		t.toServe = append(append(t.toServe, l), others...)
	}
}

// deferServing has names served again when the counter's limit has risen.
func (t *Table) deferServing(all ...*lock) {
	for _, l := range all {
		if !l.deferred {
			l.deferred = true
			t.deferred = append(t.deferred, l)
		}
	}
}

// full reports whether nobody at all can be granted a name now.
func (l *lock) full() bool {
	n := len(l.holders)
	return n > 0 && (l.holders[0].mode == Exclusive || l.slots > 0 && n >= int(l.slots))
}

// mayGrant says whether the next token stays within the clock's line. A counter
// that stands beyond it already goes on, to the end of all tokens.
func (t *Table) mayGrant(now Now) bool {
	return t.counter != CounterLimit(now.Wall) && t.counter < guard.Max
}

// grant gives a waiter its names. The token is the counter's next.
func (t *Table) grant(now Now, w *waiter, d *Decided) {
	a := &w.acquire
	s := w.session
	switch {
	case s != nil && a.Number == 0:
		// Without a stream the answer is a promise of the TTL from the grant on.
		t.touch(now, s, d)
	case s == nil:
		if why, err := t.openSession(now, a.Own, a.TTL, a.Label, a.Identity, true, d); err != nil {
			d.refuse(w.ref, a.Number, why, err.Error())
			return
		}
		s = t.sessions[a.Own]
	}
	token := t.counter + 1
	e := &recordpb.Event{
		Kind: recordpb.Kind_KIND_GRANTED, Session: s.id.bytes(), Token: uint64(token),
		Grants: make([]*recordpb.Grant, 0, len(w.locks)), Mode: a.Mode.record(), Slots: a.Slots,
		Request: a.Number, Finished: s.finishedUp, Args: w.args,
		Lease: a.Lease.bytes(), RequestKey: a.RequestKey.bytes(), Salt: a.Salt,
		Label: a.Label, Value: a.Value, LockDelayNano: int64(a.LockDelay), Claims: a.Claims,
		AtUnixNano: now.Wall.UnixNano(),
	}
	if a.RideThrough > 0 {
		e.Kind, e.RideThroughNano = recordpb.Kind_KIND_GRANTED_RIDER, int64(a.RideThrough)
	}
	for _, l := range w.locks {
		g := &recordpb.Grant{Name: l.name, Fence: uint64(l.fence(a.Mode, token))}
		if a.Mode == Slots {
			g.Slot = l.freeSlot()
		}
		e.Grants = append(e.Grants, g)
	}
	t.emit(d, e)
	answer := granted(t.leases[token])
	answer.Waited = max(now.Low-w.asked, 0)
	d.reply(w.ref, a.Number, answer)
}

// freeSlot is the lowest slot that nobody holds. The holders are in the order
// of their slots, so it is where the two orders part.
func (l *lock) freeSlot() uint32 {
	lo, hi := 0, len(l.holders)
	for lo < hi {
		if mid := (lo + hi) / 2; l.holders[mid].on(l).slot == uint32(mid)+1 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return uint32(lo) + 1
}

func granted(l *lease) Granted {
	g := Granted{Token: l.token, TTL: l.session.promise(), Salt: l.extra.salt, Session: l.session.id, RideThrough: l.extra.ride}
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
	if t.endsTo != nil && (l.extra.id != (ID{}) || e.Kind == recordpb.Kind_KIND_BROKEN) {
		d.reply(t.endsTo, 0, t.endOf(l, e))
	}
	t.emit(d, e)
	var free []*lock
	for _, k := range l.locks() {
		if l.mode == Shared && len(k.holders) > 0 && t.noneEnded(k) {
			// Beside other shared holders nothing has become free.
			t.show(k, d)
			continue
		}
		free = append(free, k)
	}
	t.serve(now, nil, d, free...)
}

func (l *lease) locks() []*lock {
	all := make([]*lock, 0, 1+len(l.extra.more))
	l.holds(func(h *hold) { all = append(all, h.lock) })
	return all
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
		t.drop(l, false)
		t.serve(now, nil, d, l.locks()...)
	}
	if len(t.deferred) > 0 && t.mayGrant(now) {
		again := t.deferred
		t.deferred = nil
		for _, l := range again {
			l.deferred = false
		}
		t.serve(now, nil, d, again...)
	}
	t.notifyPending(d)
	t.finishRoll(d)
	return len(t.ended) > 0 || len(t.deferred) > 0
}

// Replaying says that events of a log follow, and then Settle: until then no
// names are listed.
func (t *Table) Replaying() { t.names = index{idle: true} }

// FinishReplay takes out every lease of an ended session. It ends a replay, when
// there is nobody to grant to.
func (t *Table) FinishReplay() {
	for _, s := range t.ended {
		for l := s.leases.head; l != nil; l = s.leases.head {
			t.drop(l, false)
			l.holds(func(h *hold) { t.forget(h.lock) })
		}
	}
	t.ended = nil
	if t.names.idle {
		names := make([]string, 0, len(t.locks))
		for name := range t.locks { //tidy:unordered sorted by fill
			names = append(names, name)
		}
		t.names.fill(names)
	}
}

// holder describes a name's holder.
func (t *Table) holder(now Now, l *lease, k *lock) Holder {
	s := l.session
	s.timing()
	return Holder{
		Token: l.token, Handle: t.handle(s), Label: cmp.Or(l.extra.label, s.label),
		Since: time.Unix(0, l.since), ExpiresIn: min(max(s.deadline-now.High, 0), s.ttl),
		Slot: l.on(k).slot, Shared: l.mode == Shared, Breaking: l.breaking != nil,
		Grade: l.grade(), RideThrough: l.extra.ride, Identity: s.identity,
	}
}

// handle is the public name of a session, computed once.
func (t *Table) handle(s *session) string {
	if s.handle == "" {
		s.handle = Handle(t.secret, s.id)
	}
	return s.handle
}

// heldUnder finds the holder of a name with a token.
func (l *lock) heldUnder(token guard.Token) *lease {
	for h := range l.live() {
		if h.token == token {
			return h
		}
	}
	return nil
}
