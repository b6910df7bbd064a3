package locktable

import (
	"cmp"

	"github.com/pawlproject/pawl/api/recordpb"
)

// namesReported bounds the names of a session's leases that a receiver of ends is told: a
// session may end with 100,000.
const namesReported = 64

// ReportEnds sends Ended answers to ref, in the order of all other answers and with the
// same durability. It is not part of the state.
func (t *Table) ReportEnds(ref Ref) { t.endsTo = ref }

// expired describes a session that is about to end.
func (t *Table) expired(s *session) Ended {
	e := Ended{What: "expired", Identity: s.identity, Label: s.label, Handle: t.handle(s), Leases: s.leases.n}
	for l := s.leases.head; l != nil && len(e.Names) < namesReported; l = l.next {
		l.holds(func(h *hold) { e.Names = append(e.Names, h.lock.name) })
	}
	return e
}

// endOf describes a lease that is about to end by an event.
func (t *Table) endOf(l *lease, by *recordpb.Event) Ended {
	s := l.session
	e := Ended{
		What: "released", Identity: s.identity, Label: cmp.Or(l.extra.label, s.label), Handle: t.handle(s),
		Token: l.token, Reason: by.Reason, By: by.Identity,
	}
	if by.Kind == recordpb.Kind_KIND_BROKEN {
		e.What = "broken"
		if b := l.breaking; b != nil && e.Reason == "" {
			e.Reason, e.By = b.reason, b.identity
		}
	}
	l.holds(func(h *hold) { e.Names = append(e.Names, h.lock.name) })
	return e
}
