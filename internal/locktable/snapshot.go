package locktable

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
)

// Frozen is what is decided in a table at one moment. It can be read while the
// table goes on.
type Frozen struct {
	cell     string
	secret   []byte
	counter  guard.Token
	tenures  []tenure
	sessions []frozenSession
	leases   []frozenLease
	outcomes []outcome
	closed   []frozenClosure
}

type frozenSession struct {
	session
	done []uint64
}

// frozenLease pairs a lease, which does not change, with the part of it that
// does.
type frozenLease struct {
	*lease
	breaking *breaking
}

type frozenClosure struct {
	name, identity string
	left           time.Duration
	kind           closureKind
	slots          uint32
}

// Freeze copies what is decided. now is the time from which the remains of
// outcomes are counted.
func (t *Table) Freeze(now Now) *Frozen {
	f := &Frozen{
		cell: t.cell, secret: t.secret, counter: t.counter, tenures: slices.Clone(t.tenures),
		sessions: make([]frozenSession, 0, len(t.sessions)),
		leases:   make([]frozenLease, 0, len(t.leases)),
	}
	for _, s := range t.sessions { //tidy:unordered sorted by Events
		f.sessions = append(f.sessions, frozenSession{session: s.decided(), done: sortedKeys(s.done)})
	}
	for _, l := range t.leases { //tidy:unordered sorted by Events
		switch key := l.extra.requestKey; {
		case !l.session.over:
			f.leases = append(f.leases, frozenLease{lease: l, breaking: l.breaking})
		case key != (ID{}):
			// It is on the work list, and counts as ended.
			f.outcomes = append(f.outcomes, outcome{key: key, identity: l.session.identity, args: l.args, left: OutcomeKept})
		}
	}
	for _, k := range t.locks { //tidy:unordered sorted by Events
		for _, c := range []*closure{k.closed, k.claimOnly} {
			if c != nil {
				f.closed = append(f.closed, frozenClosure{k.name, c.identity, c.left, c.kind, c.slots()})
			}
		}
	}
	// What the work list will close.
	for _, s := range t.ended {
		if !s.expired {
			continue
		}
		for l := s.leases.head; l != nil; l = l.next {
			l.holds(func(h *hold) {
				if d := l.extra.delay; d > 0 {
					f.closed = append(f.closed, frozenClosure{h.lock.name, s.identity, d, lockDelay, 0})
				}
				if d := l.extra.ride; d > 0 {
					f.closed = append(f.closed, frozenClosure{h.lock.name, s.identity, d, claimOnly, l.extra.slots})
				}
			})
		}
	}
	for _, x := range t.outcomes.order {
		if t.outcomes.ended[x.key] == x {
			f.outcomes = append(f.outcomes, outcome{key: x.key, identity: x.identity, args: x.args, left: max(x.forget-now.Low, 1)})
		}
	}
	for _, x := range t.outcomes.fresh {
		f.outcomes = append(f.outcomes, *x)
	}
	return f
}

// decided copies the decided part of a session, without its maps.
func (s *session) decided() session {
	return session{
		id: s.id, ttl: s.ttl, label: s.label, identity: s.identity, own: s.own, opened: s.opened,
		silent: s.silent, left: s.left, finished: s.finished,
	}
}

// Events are the frozen table's: applied to an empty table in this order they
// rebuild it. The order is the same for equal tables.
func (f *Frozen) Events() iter.Seq[*recordpb.Event] {
	slices.SortFunc(f.sessions, func(a, b frozenSession) int { return slices.Compare(a.id[:], b.id[:]) })
	slices.SortFunc(f.leases, func(a, b frozenLease) int { return cmp.Compare(a.token, b.token) })
	slices.SortFunc(f.outcomes, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.left, b.left), slices.Compare(a.key[:], b.key[:]))
	})
	slices.SortStableFunc(f.closed, func(a, b frozenClosure) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind), cmp.Compare(b.left, a.left))
	})
	f.closed = slices.CompactFunc(f.closed, func(a, b frozenClosure) bool {
		return a.name == b.name && a.kind == b.kind
	})
	return func(yield func(*recordpb.Event) bool) {
		if !yield(&recordpb.Event{Kind: recordpb.Kind_KIND_CELL, Cell: f.cell, Secret: f.secret}) {
			return
		}
		for i := range f.sessions {
			for _, e := range f.sessions[i].events() {
				if !yield(e) {
					return
				}
			}
		}
		for i := range f.leases {
			for _, e := range f.leases[i].events() {
				if !yield(e) {
					return
				}
			}
		}
		for _, x := range f.closed {
			left, _ := x.kind.records()
			if !yield(&recordpb.Event{Kind: left, Name: x.name, Identity: x.identity, LeftNano: int64(x.left), Slots: x.slots}) {
				return
			}
		}
		for _, x := range f.outcomes {
			if !yield(&recordpb.Event{
				Kind: recordpb.Kind_KIND_OUTCOME, RequestKey: x.key.bytes(), Identity: x.identity, Args: x.args, LeftNano: int64(x.left),
			}) {
				return
			}
		}
		for _, x := range f.tenures {
			if !yield(&recordpb.Event{
				Kind: recordpb.Kind_KIND_PAST_TENURE, Epoch: x.epoch, Token: uint64(x.opened), LastToken: uint64(x.last),
			}) {
				return
			}
		}
		yield(&recordpb.Event{Kind: recordpb.Kind_KIND_COUNTER, Token: uint64(f.counter)})
	}
}

// doneMax bounds the numbers of one event, so that a chunk stays small.
const doneMax = 4096

func (s *frozenSession) events() []*recordpb.Event {
	all := []*recordpb.Event{{
		Kind: recordpb.Kind_KIND_SESSION_OPENED, Session: s.id.bytes(), TtlNano: int64(s.ttl),
		Label: s.label, Identity: s.identity, Own: s.own, AtUnixNano: s.opened,
	}}
	if s.silent {
		all = append(all, &recordpb.Event{
			Kind: recordpb.Kind_KIND_SESSION_SILENT, Session: s.id.bytes(), LeftNano: int64(s.left),
		})
	}
	for rest := s.done; s.finished > 0 || len(rest) > 0; {
		n := min(len(rest), doneMax)
		all = append(all, &recordpb.Event{
			Kind: recordpb.Kind_KIND_REQUESTS, Session: s.id.bytes(), Finished: s.finished, Done: rest[:n],
		})
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	return all
}

func (l *frozenLease) events() []*recordpb.Event {
	e := &recordpb.Event{
		Kind: recordpb.Kind_KIND_GRANTED, Session: l.session.id.bytes(), Token: uint64(l.token),
		Mode: l.mode.record(), Slots: l.extra.slots, Request: l.request, Args: l.args, Lease: l.extra.id.bytes(),
		RequestKey: l.extra.requestKey.bytes(), Salt: l.extra.salt, Label: l.extra.label, Value: l.extra.value,
		LockDelayNano: int64(l.extra.delay), Claims: l.claims, AtUnixNano: l.since,
	}
	if l.extra.ride > 0 {
		e.Kind, e.RideThroughNano = recordpb.Kind_KIND_GRANTED_RIDER, int64(l.extra.ride)
	}
	l.holds(func(h *hold) {
		e.Grants = append(e.Grants, &recordpb.Grant{Name: h.lock.name, Fence: uint64(h.fence), Slot: h.slot})
	})
	all := []*recordpb.Event{e}
	if b := l.breaking; b != nil {
		all = append(all, &recordpb.Event{
			Kind: recordpb.Kind_KIND_BREAKING, Session: l.session.id.bytes(), Token: uint64(l.token),
			Reason: b.reason, Identity: b.identity, AtUnixNano: b.at,
		})
	}
	return all
}
