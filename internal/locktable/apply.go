package locktable

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

// TenuresKept is how many tenures the table remembers, to tell a token that a
// lost log granted from one that it granted itself.
const TenuresKept = 4096

// ErrRecord: an event does not fit the table. The log is not one that this
// table wrote, or a newer one.
var ErrRecord = errors.New("locktable: a record does not fit")

// Apply carries out one decided event: from the log, from a snapshot, or just
// decided. An error is ErrRecord; the table must then not be used.
func (t *Table) Apply(e *recordpb.Event) error {
	if err := t.apply(e); err != nil {
		return fmt.Errorf("%w: %v of token %d: %w", ErrRecord, e.Kind, e.Token, err)
	}
	return nil
}

func (t *Table) apply(e *recordpb.Event) error {
	switch e.Kind {
	case recordpb.Kind_KIND_CELL:
		t.cell, t.secret = e.Cell, e.Secret
		return nil
	case recordpb.Kind_KIND_TENURE:
		return t.applyTenure(e)
	case recordpb.Kind_KIND_FLOOR:
		return t.raise(guard.Token(e.Token))
	case recordpb.Kind_KIND_GRANTED, recordpb.Kind_KIND_GRANTED_RIDER:
		return t.applyGranted(e)
	case recordpb.Kind_KIND_RELEASED, recordpb.Kind_KIND_BROKEN:
		return t.applyReleased(e)
	case recordpb.Kind_KIND_BREAKING:
		l := t.leases[guard.Token(e.Token)]
		if l == nil {
			return errors.New("no such lease")
		}
		l.breaking = &breaking{reason: e.Reason, identity: e.Identity, at: e.AtUnixNano}
		return nil
	case recordpb.Kind_KIND_PAST_TENURE:
		t.tenures = append(t.tenures, tenure{e.Epoch, guard.Token(e.Token), guard.Token(e.LastToken)})
		return nil
	case recordpb.Kind_KIND_COUNTER:
		return t.raise(guard.Token(e.Token))
	case recordpb.Kind_KIND_NAME_CLOSED:
		t.applyClosed(e, lockDelay)
		return nil
	case recordpb.Kind_KIND_NAME_CLAIM_ONLY:
		t.applyClosed(e, claimOnly)
		return nil
	case recordpb.Kind_KIND_NAME_OPENED:
		t.applyOpened(e, lockDelay)
		return nil
	case recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER:
		t.applyOpened(e, claimOnly)
		return nil
	case recordpb.Kind_KIND_OUTCOME:
		t.charge(e.Identity, usage{ids: 1})
		t.outcomes.end(idOf(e.RequestKey), e.Identity, e.Args, time.Duration(e.LeftNano))
		return nil
	case recordpb.Kind_KIND_SESSION_OPENED, recordpb.Kind_KIND_SESSION_CLOSED, recordpb.Kind_KIND_SESSION_EXPIRED,
		recordpb.Kind_KIND_SESSION_SILENT, recordpb.Kind_KIND_SESSION_HEARD, recordpb.Kind_KIND_REQUESTS,
		recordpb.Kind_KIND_SESSION_TTL:
		return t.applySession(e)
	}
	return fmt.Errorf("unknown kind %d: written by a newer version", e.Kind)
}

func (t *Table) applySession(e *recordpb.Event) error {
	id := idOf(e.Session)
	s := t.sessions[id]
	if e.Kind == recordpb.Kind_KIND_SESSION_OPENED {
		if s != nil {
			return errors.New("the session lives already")
		}
		s = &session{
			id: id, ttl: time.Duration(e.TtlNano), label: e.Label, identity: e.Identity,
			own: e.Own, opened: e.AtUnixNano,
		}
		t.sessions[id] = s
		t.charge(s.identity, usage{sessions: 1})
		t.due.add(0, appointment{s: s})
		return nil
	}
	if s == nil {
		return errors.New("no such session")
	}
	switch e.Kind {
	case recordpb.Kind_KIND_SESSION_CLOSED, recordpb.Kind_KIND_SESSION_EXPIRED:
		s.expired = e.Kind == recordpb.Kind_KIND_SESSION_EXPIRED
		t.end(s)
	case recordpb.Kind_KIND_SESSION_SILENT:
		s.silent, s.left = true, time.Duration(e.LeftNano)
	case recordpb.Kind_KIND_SESSION_HEARD:
		s.silent, s.left = false, 0
	case recordpb.Kind_KIND_SESSION_TTL:
		s.ttl = time.Duration(e.TtlNano)
	case recordpb.Kind_KIND_REQUESTS:
		t.finish(s, e.Finished)
		for _, n := range e.Done {
			t.markDone(s, n)
		}
	}
	return nil
}

func (t *Table) applyTenure(e *recordpb.Event) error {
	if e.Epoch <= t.Epoch() {
		return fmt.Errorf("epoch %d follows epoch %d", e.Epoch, t.Epoch())
	}
	opened := guard.Token(e.Token)
	if err := t.raise(opened); err != nil {
		return err
	}
	if len(t.tenures) >= TenuresKept {
		t.tenures = append(t.tenures[:0], t.tenures[len(t.tenures)-TenuresKept+1:]...)
	}
	t.tenures = append(t.tenures, tenure{epoch: e.Epoch, opened: opened, last: opened})
	return nil
}

// raise moves the counter up to a value.
func (t *Table) raise(to guard.Token) error {
	if to < t.counter {
		return fmt.Errorf("the counter would go back from %d to %d", t.counter, to)
	}
	if to > guard.Max {
		return fmt.Errorf("the counter would pass %d", guard.Max)
	}
	t.counter = to
	return nil
}

func (t *Table) applyGranted(e *recordpb.Event) error {
	token := guard.Token(e.Token)
	s := t.sessions[idOf(e.Session)]
	mode, known := modes[e.Mode]
	switch {
	case s == nil:
		return errors.New("no such session")
	case token <= t.counter:
		return fmt.Errorf("the token does not exceed the counter %d", t.counter)
	case !known:
		return fmt.Errorf("unknown mode %d: written by a newer version", e.Mode)
	case len(e.Grants) == 0:
		return errors.New("a lease of no name")
	case (e.Kind == recordpb.Kind_KIND_GRANTED_RIDER) != (e.RideThroughNano != 0):
		return errors.New("a ride-through of a lease that is no rider, or a rider without one")
	}
	ride := time.Duration(e.RideThroughNano)
	if err := bounds.ValidRide(e.Claims, mode == Shared, len(e.Grants), ride); err != nil {
		return err
	}
	if err := t.raise(max(token, t.counter)); err != nil {
		return err
	}
	l := &lease{
		token: token, session: s, mode: mode, claims: e.Claims, request: e.Request, args: e.Args,
		since: e.AtUnixNano, extra: extraOf(e),
	}
	for i, g := range e.Grants {
		h := hold{lock: t.lockOf(g.Name, true), fence: guard.Token(g.Fence), slot: g.Slot}
		if err := t.take(l, h, e.Slots); err != nil {
			return fmt.Errorf("%q: %w", g.Name, err)
		}
		if i == 0 {
			l.first = h
		} else {
			l.extra.more = append(l.extra.more, h)
		}
	}
	if n := len(t.tenures); n > 0 {
		t.tenures[n-1].last = token
	}
	t.leases[token] = l
	t.count(l, 1)
	t.charge(s.identity, l.usage())
	s.leases.push(l)
	if l.request != 0 {
		put(&s.granted, l.request, l)
	}
	t.finish(s, e.Finished)
	if id := l.extra.id; id != (ID{}) {
		t.byID[id] = l
	}
	if l.extra.requestKey != (ID{}) {
		t.charge(s.identity, usage{ids: 1})
		t.outcomes.begin(l)
	}
	return nil
}

var modes = map[recordpb.Mode]Mode{
	recordpb.Mode_MODE_EXCLUSIVE: Exclusive, recordpb.Mode_MODE_SHARED: Shared, recordpb.Mode_MODE_SLOTS: Slots,
}

func (m Mode) record() recordpb.Mode {
	return [...]recordpb.Mode{
		recordpb.Mode_MODE_EXCLUSIVE, recordpb.Mode_MODE_SHARED, recordpb.Mode_MODE_SLOTS,
	}[m]
}

func extraOf(e *recordpb.Event) *extra {
	if len(e.Grants) == 1 && e.Slots == 0 && e.Value == nil && e.LockDelayNano == 0 && e.RideThroughNano == 0 &&
		e.RequestKey == nil && e.Lease == nil && e.Label == "" {
		return none
	}
	return &extra{
		id: idOf(e.Lease), label: e.Label,
		slots: e.Slots, value: e.Value, delay: time.Duration(e.LockDelayNano),
		ride:       time.Duration(e.RideThroughNano),
		requestKey: idOf(e.RequestKey), salt: e.Salt,
	}
}

// take makes a lease a holder of a name: I2 is kept here, live and in replay.
func (t *Table) take(l *lease, h hold, slots uint32) error {
	k := h.lock
	t.removeEnded(k)
	if k.unused() {
		k.slots = slots
	}
	at := len(k.holders)
	switch {
	case k.slots != slots:
		return fmt.Errorf("it has %d slots, not %d", k.slots, slots)
	case l.mode == Slots:
		at = k.place(h.slot)
		if h.slot < 1 || h.slot > slots || at < len(k.holders) && k.holders[at].on(k).slot == h.slot {
			return fmt.Errorf("slot %d of %d is not free", h.slot, slots)
		}
	case slots != 0:
		return errors.New("slots of a lock")
	case len(k.holders) > 0 && (l.mode == Exclusive || k.holders[0].mode == Exclusive):
		return fmt.Errorf("it is held under token %d", k.holders[0].token)
	case k.claimOnly != nil && !l.claims:
		return errors.New("it is closed to leases that do not claim")
	}
	if want := k.fence(l.mode, l.token); h.fence != want && !(l.mode == Shared && at == 0 && h.fence < l.token) {
		return fmt.Errorf("fence %d where %d was expected", h.fence, want)
	}
	if l.mode != Shared {
		t.reopen(k, lockDelay)
	}
	k.holders = slices.Insert(k.holders, at, l)
	return nil
}

// fence is what a new holder's guards are claimed with: its token, or that of
// the first of the present unbroken run of shared holders.
func (l *lock) fence(m Mode, token guard.Token) guard.Token {
	if m == Shared && len(l.holders) > 0 {
		return l.holders[0].on(l).fence
	}
	return token
}

func (t *Table) applyReleased(e *recordpb.Event) error {
	l := t.leases[guard.Token(e.Token)]
	if l == nil {
		return errors.New("no such lease")
	}
	s := l.session
	t.finish(s, e.Finished)
	t.drop(l, e.Forced)
	// A replay has nobody to serve who would forget the names.
	l.holds(func(h *hold) { t.forget(h.lock) })
	if s.own && !s.over {
		t.end(s)
	}
	return nil
}

// end makes a session over. Its leases, if any, go on the work list.
func (t *Table) end(s *session) {
	delete(t.sessions, s.id)
	t.roll.remove(s)
	delete(t.returned, s)
	t.charge(s.identity, usage{sessions: -1, cancels: -len(s.cancelled), finished: -len(s.done)})
	s.cancelled, s.done = nil, nil
	t.due.remove(s.slot)
	s.over = true
	if s.leases.n > 0 {
		t.ended = append(t.ended, s)
		t.ends++
	}
}

// drop takes a lease out of everything that knows it. When it ended without its holder's
// doing, its names are closed for its lock-delay, and claim-only for as long as its
// holder may ride.
func (t *Table) drop(l *lease, forced bool) {
	s := l.session
	l.holds(func(h *hold) {
		k := h.lock
		k.removeHolder(l)
		if !forced && !s.expired {
			return
		}
		if d := l.extra.delay; d > 0 {
			t.shut(k, lockDelay, s.identity, d)
		}
		if d := l.extra.ride; d > 0 {
			t.shut(k, claimOnly, s.identity, d)
		}
	})
	t.count(l, -1)
	s.leases.remove(l)
	delete(t.leases, l.token)
	t.charge(s.identity, l.usage().negative())
	if l.request != 0 {
		delete(s.granted, l.request)
		t.markDone(s, l.request)
	}
	if id := l.extra.id; id != (ID{}) {
		delete(t.byID, id)
	}
	if key := l.extra.requestKey; key != (ID{}) {
		t.outcomes.end(key, s.identity, l.args, 0)
	}
}

// finish notes that every request below n is finished.
func (t *Table) finish(s *session, n uint64) {
	if n <= s.finished {
		return
	}
	if before := len(s.done); before > 0 {
		dropBelow(s.done, s.finished, n)
		t.charge(s.identity, usage{finished: len(s.done) - before})
	}
	s.finished = n
}

// dropBelow deletes the numbers from low, below which there is none, up to n: in
// the time of what lies between or of what there is, whichever is less.
func dropBelow(set map[uint64]struct{}, low, n uint64) {
	if n-low < uint64(len(set)) {
		for ; low < n; low++ {
			delete(set, low)
		}
		return
	}
	for k := range set { //tidy:unordered only deletes
		if k < n {
			delete(set, k)
		}
	}
}

// markDone notes that a request is finished, although not every one below it is. A
// session that is over has no requests.
func (t *Table) markDone(s *session, n uint64) {
	if n < s.finished || s.over {
		return
	}
	if _, noted := s.done[n]; !noted {
		put(&s.done, n, struct{}{})
		t.charge(s.identity, usage{finished: 1})
	}
}

// put makes the map when it is needed: most sessions need few of theirs.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

func idOf(b []byte) ID {
	var id ID
	copy(id[:], b)
	return id
}

func (id ID) bytes() []byte {
	if id == (ID{}) {
		return nil
	}
	return bytes.Clone(id[:])
}
