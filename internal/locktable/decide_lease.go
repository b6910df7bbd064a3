package locktable

import (
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

const leaseGone = "no such lease: it was released, expired, was broken, or never was"

func (c Acquire) decide(t *Table, now Now, d *Decided) {
	c.Names = unique(c.Names)
	if err := c.valid(); err != nil {
		d.refuse(c.Ref, c.Number, Invalid, err.Error())
		return
	}
	args := c.fingerprint()
	s, answered := t.asker(now, c, args, d)
	if answered || t.repeated(now, c, args, d) {
		return
	}
	// Waiters that are there come first, also before this one gives up its old place.
	for _, name := range c.Names {
		if l := t.locks[name]; l != nil && t.stale(l) {
			t.serve(now, l, d)
		}
	}
	// moved: it replaces an equal request, so it is exempt from the limits that the old
	// one has passed.
	moved := false
	if c.Replaces != 0 && s != nil {
		var left []*lock
		c.Ticket, left, moved = t.replace(now, s, c, args, d)
		// Served at the end, when this acquire has its place or was refused: it may name
		// others than the old one.
		defer t.serve(now, nil, d, left...)
	}
	if !moved {
		if why, message := t.overLimit(now, s, c); why != "" {
			d.refuse(c.Ref, c.Number, why, message)
			return
		}
	}
	w := &waiter{ref: c.Ref, session: s, acquire: c, args: args, asked: now.High, place: c.Ticket}
	// A place of this epoch that was not reached yet is from a tenure that the store has
	// lost, and would stand behind those who come next.
	if w.place == (Place{}) || w.place.Epoch > t.Epoch() || w.place.Epoch == t.Epoch() && w.place.Sequence > t.arrivals {
		t.arrivals++
		w.place = Place{t.Epoch(), t.arrivals}
	}
	w.locks = w.one[:0]
	for _, name := range c.Names {
		w.locks = append(w.locks, t.lockOf(name, true))
	}
	switch free := w.grantable(); {
	case free && t.mayGrant(now):
		t.grant(now, w, d)
		for _, l := range w.locks {
			t.show(l, d)
		}
	case c.Try && !free:
		d.reply(c.Ref, c.Number, t.held(now, w))
	default:
		if why := t.packed(w); why != "" && !moved {
			d.refuse(c.Ref, c.Number, Exhausted, why)
			break
		}
		t.join(w)
		if free {
			t.deferServing(w.locks...)
		}
		d.reply(c.Ref, c.Number, w.waiting(now))
	}
	for _, l := range w.locks {
		t.forget(l)
	}
}

// unique removes the second and later of equal names.
func unique(names []string) []string {
	for i := 1; i < len(names) && len(names) <= 2*bounds.NamesMax; i++ {
		if slices.Contains(names[:i], names[i]) {
			names = slices.Delete(slices.Clone(names), i, i+1)
			i--
		}
	}
	return names
}

// asker finds the session that a request is made for; nil when it is to have
// one of its own. answered: there is nothing more to be done.
func (t *Table) asker(now Now, c Acquire, args uint64, d *Decided) (s *session, answered bool) {
	if c.Session == (ID{}) {
		return nil, false
	}
	if c.Number == 0 {
		if s = t.sessions[c.Session]; s == nil || s.identity != c.Identity {
			d.refuse(c.Ref, 0, Gone, sessionGone)
			return nil, true
		}
		if s.own {
			d.refuse(c.Ref, 0, Conflict, ownSession)
			return nil, true
		}
		t.touch(now, s, d)
		return s, false
	}
	if s = t.onStream(c.Session, c.Generation, c.Ref, d); s == nil || s.stream == nil {
		// What a stream asked for before it ended is asked again on the next one,
		// if it is still wanted.
		return nil, true
	}
	return s, t.known(now, s, c, args, d)
}

// Asked reports whether an acquire was taken before, as it is: it waits, or was
// granted and its answer was lost. So is one that takes the place of such a one.
func (t *Table) Asked(c Acquire) bool {
	if c.RequestKey != (ID{}) {
		return t.outcomes.live[c.RequestKey] != nil || t.outcomes.waiting[c.RequestKey] != nil
	}
	s := t.sessions[c.Session]
	if s == nil || c.Number == 0 {
		return false
	}
	taken := func(n uint64) bool { return s.granted[n] != nil || s.waiting[n] != nil }
	return taken(c.Number) || c.Replaces != 0 && taken(c.Replaces)
}

// known answers a request of a stream that was asked before.
func (t *Table) known(now Now, s *session, c Acquire, args uint64, d *Decided) bool {
	low := max(s.finished, s.finishedUp)
	_, done := s.done[c.Number]
	_, cancelled := s.cancelled[c.Number]
	switch l, w := s.granted[c.Number], s.waiting[c.Number]; {
	case c.Number < low || done:
		d.refuse(c.Ref, c.Number, Gone, fmt.Sprintf("request %d is finished", c.Number))
	case c.Number-low > bounds.NumbersMax:
		d.refuse(c.Ref, c.Number, Invalid, fmt.Sprintf(
			"request %d is more than %d above the lowest unfinished one, %d", c.Number, bounds.NumbersMax, low))
	case cancelled:
		d.refuse(c.Ref, c.Number, Cancelled, "cancelled by the client")
	case l != nil && l.args != args || w != nil && w.args != args:
		d.refuse(c.Ref, c.Number, Conflict, fmt.Sprintf("request %d was asked before with other arguments", c.Number))
	case l != nil:
		d.reply(c.Ref, c.Number, granted(l))
	case w != nil:
		w.attach(c.Ref)
		d.reply(c.Ref, c.Number, w.waiting(now))
		t.serve(now, nil, d, w.locks...)
	default:
		return false
	}
	return true
}

// repeated answers a request without a stream whose request id is known. If the first
// request still waits, the repeat takes its place; the first caller is gone, or is told
// so. If a proxy's time-out cuts the connection:
//
//  1. The request waits, second in the queue. The connection ends.
//  2. The cell sees that (HangUp): the place stays, and is passed over. No caller would
//     receive a grant, so none is made (I7, I8).
//  3. The holder releases. The third waiter is granted the name.
//  4. The request comes again on another connection and takes its place: it is now first
//     in the queue. Had 4 come before 2, the place would have moved to the new connection,
//     and 2 would find no waiter of the old one. Had 4 come before 3, it would be granted
//     in 3.
//  5. If it does not come within PlaceKept, or its session ends, the place is given up,
//     and a later repeat stands at the end.
//
// A grant that was decided before 2 is a lease, which the repeat finds by its request
// id, as after any lost answer.
func (t *Table) repeated(now Now, c Acquire, args uint64, d *Decided) bool {
	if c.RequestKey == (ID{}) {
		return false
	}
	const other = "the request id was used before with other arguments"
	if l := t.outcomes.live[c.RequestKey]; l != nil && !l.session.over {
		if l.args != args {
			d.refuse(c.Ref, 0, Conflict, other)
		} else {
			// The answer promises the whole TTL again.
			t.touch(now, l.session, d)
			d.reply(c.Ref, 0, granted(l))
		}
		return true
	}
	if w := t.outcomes.waiting[c.RequestKey]; w != nil {
		if w.args != args {
			d.refuse(c.Ref, 0, Conflict, other)
			return true
		}
		d.refuse(w.ref, 0, Cancelled, "the request was repeated on another connection")
		if c.Try {
			t.removeWaiter(now, w, d)
			return false
		}
		// Waited counts from what the present caller sent.
		w.acquire.Ref, w.asked = c.Ref, now.High
		w.acquire.Lease, w.acquire.Own, w.acquire.Salt = c.Lease, c.Own, c.Salt
		t.connect(w, c.Ref)
		d.reply(c.Ref, 0, w.waiting(now))
		// It may have been passed over so far, and its turn have come.
		t.serve(now, nil, d, w.locks...)
		return true
	}
	if x := t.outcomes.ended[c.RequestKey]; x != nil || t.outcomes.live[c.RequestKey] != nil {
		d.refuse(c.Ref, 0, Gone, "the lease of this request id has ended")
		return true
	}
	return false
}

// overLimit says which limit a new lease of the session would pass, or that a name
// is used otherwise.
func (t *Table) overLimit(now Now, s *session, c Acquire) (why Reason, message string) {
	switch {
	case s != nil && s.leases.n >= t.limits.LeasesPerSession:
		return Exhausted, fmt.Sprintf("the session holds %d leases, its limit", s.leases.n)
	case len(t.leases) >= t.limits.Leases:
		return Exhausted, fmt.Sprintf("the cell has %d leases, its limit", len(t.leases))
	case s == nil && len(t.sessions) >= t.limits.Sessions:
		return Exhausted, fmt.Sprintf("the cell has %d sessions, its limit", len(t.sessions))
	case c.RequestKey != (ID{}) && t.outcomes.n() >= t.limits.Leases:
		return Exhausted, fmt.Sprintf("the cell remembers %d request ids, its limit", t.outcomes.n())
	}
	more := c.usage()
	more.leases = 1
	if s == nil {
		more.sessions = 1
	}
	if c.RequestKey != (ID{}) {
		more.ids = 1
	}
	if s != nil && c.Replaces == 0 && c.Number > max(s.finished, s.finishedUp) {
		more.finished = 1
	}
	for _, x := range []struct {
		what            string
		has, more, most int
	}{
		{"bytes of values", t.total.values, more.values, t.limits.ValueBytes},
		{"bytes of names and labels", t.total.texts, more.texts, t.limits.TextBytes},
		{closedNames, t.total.closed, more.closed, t.limits.Closed},
		{"requests that are finished before an earlier one", t.total.finished, more.finished, t.limits.Finished},
	} {
		if x.more > 0 && x.has+x.more > x.most {
			return Exhausted, fmt.Sprintf("the cell has %d %s; %d more would pass its limit", x.has, x.what, x.more)
		}
	}
	if why := t.overdrawn(c.Identity, more); why != "" {
		return Exhausted, why
	}
	for _, name := range c.Names {
		l := t.locks[name]
		switch {
		case l == nil || l.unused() || l.slots == c.Slots:
		case l.idle():
			return Conflict, fmt.Sprintf("%q was used as %s by a lease that rides through outages, whose holder may be going on, "+
				"and was asked for as %s; that is possible in %v", name, use(l.slots), use(c.Slots), inWords(l.claimOnly.remains(now)))
		default:
			return Conflict, fmt.Sprintf("%q is used as %s, and was asked for as %s", name, use(l.slots), use(c.Slots))
		}
	}
	return "", ""
}

// packed says which limit a new waiter would pass.
func (t *Table) packed(w *waiter) string {
	if why := t.overdrawn(w.acquire.Identity, usage{waiters: 1}); why != "" {
		return why
	}
	if t.waiters >= t.limits.Waiters {
		return fmt.Sprintf("the cell has %d waiters, its limit", t.waiters)
	}
	for _, l := range w.locks {
		if len(l.queue) >= t.limits.WaitersPerName {
			return fmt.Sprintf("%q has %d waiters, its limit", l.name, len(l.queue))
		}
	}
	return ""
}

func use(slots uint32) string {
	if slots == 0 {
		return "a lock"
	}
	return fmt.Sprintf("%d slots", slots)
}

// held says which of its names a try could not have.
func (t *Table) held(now Now, w *waiter) Refused {
	for _, l := range w.locks {
		switch {
		case l.takes(w) && l.turnOf(w):
			continue
		case len(l.holders) > 0:
			h := t.holder(now, l.holders[0], l)
			r := Refused{Reason: Held, Message: fmt.Sprintf("%q is held", l.name), Name: l.name, Holder: &h}
			if l.claimOnly != nil && !w.acquire.Claims {
				r.ClaimOnly = l.claimOnly.remains(now)
				r.Message += AlsoClosed + ClaimOnlyText(r.ClaimOnly)
			}
			return r
		case l.closedTo(&w.acquire):
			r := Refused{Reason: Held, Name: l.name, Message: l.closedMessage(now, &w.acquire)}
			if !w.acquire.Claims {
				r.ClaimOnly = l.claimOnly.remains(now)
			}
			return r
		}
		return Refused{Reason: Held, Name: l.name, Message: fmt.Sprintf("others wait for %q", l.name)}
	}
	panic("locktable: refused although every name is free")
}

func (c Cancel) decide(t *Table, now Now, d *Decided) {
	if c.Waiter != nil {
		if w := t.unary[c.Waiter]; w != nil {
			t.removeWaiter(now, w, d)
			d.refuse(w.ref, 0, Cancelled, "cancelled by the client")
		}
		return
	}
	s := t.sessions[c.Session]
	if s == nil || s.generation != c.Generation {
		return
	}
	if low := max(s.finished, s.finishedUp); c.Number >= low && c.Number-low <= bounds.NumbersMax {
		// Noted in any case: a cancel does not wait behind acquires, so the request
		// may come yet, also one that waits and is asked again on a new stream.
		t.cancel(s, c.Number, d)
	}
	if w := s.waiting[c.Number]; w != nil {
		ref := w.ref
		t.removeWaiter(now, w, d)
		d.refuse(ref, c.Number, Cancelled, "cancelled by the client")
	} else if l := s.granted[c.Number]; l != nil {
		t.release(now, l, d)
	}
}

func (c DetachWaiter) decide(t *Table, now Now, d *Decided) {
	w := t.unary[c.Waiter]
	if w == nil {
		return
	}
	if w.acquire.RequestKey == (ID{}) {
		t.removeWaiter(now, w, d)
		d.refuse(w.ref, 0, Cancelled, "its connection has ended")
		return
	}
	t.disconnect(w)
	w.attach(nil)
	t.due.add(now.High+bounds.PlaceKept, appointment{kept: w})
	t.serveAll(now, []*waiter{w}, d)
}

func (c Release) decide(t *Table, now Now, d *Decided) {
	var l *lease
	if c.Lease != (ID{}) {
		if l = t.byID[c.Lease]; l != nil && l.session.identity != c.Identity {
			l = nil
		}
	} else if s := t.onStream(c.Session, c.Generation, c.Ref, d); s != nil {
		l = s.holding(t, c.Token)
	} else {
		return
	}
	if l == nil || l.session.over {
		d.refuse(c.Ref, c.Number, Gone, leaseGone)
		return
	}
	if !l.session.own {
		t.touch(now, l.session, d)
	}
	if c.Lost {
		t.conclude(now, l, &recordpb.Event{Kind: recordpb.Kind_KIND_RELEASED, Forced: true}, d)
	} else {
		t.release(now, l, d)
	}
	d.reply(c.Ref, c.Number, Done{Of: AskedRelease})
}

func (c Check) decide(t *Table, _ Now, d *Decided) {
	s := t.onStream(c.Session, c.Generation, c.Ref, d)
	if s == nil {
		return
	}
	if s.holding(t, c.Token) == nil {
		d.refuse(c.Ref, c.Number, Gone, leaseGone)
		return
	}
	d.reply(c.Ref, c.Number, Done{Of: AskedCheck, Session: s.id})
}

// holding finds the session's own lease with a token.
func (s *session) holding(t *Table, token guard.Token) *lease {
	if l := t.leases[token]; l != nil && l.session == s {
		return l
	}
	return nil
}

func (c Break) decide(t *Table, now Now, d *Decided) {
	if err := bounds.ValidReason(c.Reason); err != nil {
		d.refuse(c.Ref, 0, Invalid, err.Error())
		return
	}
	var l *lease
	k := t.locks[c.Name]
	if k != nil {
		t.serve(now, k, d)
		l = k.heldUnder(c.Token)
	}
	if l == nil {
		d.refuse(c.Ref, 0, TokenMismatch, mismatch(k, c))
		return
	}
	if c.May != nil && slices.ContainsFunc(l.locks(), func(k *lock) bool { return !c.May(k.name) }) {
		d.refuse(c.Ref, 0, Denied, "the lease holds other names, too, and not all of them may be broken by this identity")
		return
	}
	stream := l.session.stream
	broken := Broken{Ended: c.Now, Handle: t.handle(l.session)}
	switch {
	case c.Now:
		broken.RidesOn = l.extra.ride
		t.conclude(now, l, &recordpb.Event{
			Kind: recordpb.Kind_KIND_BROKEN, Forced: true, Reason: c.Reason, Identity: c.Identity,
			RideThroughNano: int64(l.extra.ride),
		}, d)
		d.reply(stream, 0, Notice{Token: l.token, Ended: true, Reason: c.Reason})
	case l.breaking == nil:
		t.emit(d, &recordpb.Event{
			Kind: recordpb.Kind_KIND_BREAKING, Session: l.session.id.bytes(), Token: uint64(l.token),
			Reason: c.Reason, Identity: c.Identity, AtUnixNano: now.Wall.UnixNano(),
		})
		d.reply(stream, 0, Notice{Token: l.token, Reason: c.Reason})
	}
	d.reply(c.Ref, 0, broken)
}

func mismatch(k *lock, c Break) string {
	if k == nil || len(k.holders) == 0 {
		return fmt.Sprintf("%q is free", c.Name)
	}
	return fmt.Sprintf("%q is held under another token than %d", c.Name, c.Token)
}
