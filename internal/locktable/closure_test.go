package locktable

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// What keeps a name closed counts with the identity whose lease does, and not for ever with
// the one that closed it first.
func TestClosureCountsWithWhoeverKeepsTheNameClosed(t *testing.T) {
	s := newShop(bounds.DefaultLimits)
	for i, who := range []string{"a", "b"} {
		s.decide(Acquire{
			Ref: new(int), Own: s.id(), Lease: s.id(), Identity: who, TTL: time.Minute, Names: []string{"n"},
			Claims: true, RideThrough: time.Duration(i+1) * time.Hour,
		})
		s.decide(Break{Ref: new(int), Name: "n", Token: s.table.counter, Now: true})
	}
	b := s.table
	if a, c := b.usage["a"].closed, b.usage["b"].closed; a != 0 || c != 1 || b.total.closed != 1 {
		t.Errorf("a has %d closures, b %d, all %d; 0, 1 and 1 were expected", a, c, b.total.closed)
	}
}

// A session ends with a rider of each of many names, for all of which others wait together.
// Each of those is told once, and passed over once.
func TestManyNamesBecomeClaimOnlyTogether(t *testing.T) {
	s := newShop(bounds.DefaultLimits)
	rider, others := s.attach(""), s.attach("")
	var names []string
	for i := range bounds.NamesMax {
		names = append(names, fmt.Sprint(i))
		s.decide(Acquire{
			Ref: rider, Session: rider, Generation: 1, Number: uint64(i + 1), Names: names[i:], Claims: true, RideThrough: time.Hour,
		})
	}
	const waiters = 100
	for i := range waiters {
		s.decide(Acquire{Ref: others, Session: others, Generation: 1, Number: uint64(i + 1), Names: names})
	}
	var d Decided
	s.table.finishSession(s.now, s.table.sessions[rider], recordpb.Kind_KIND_SESSION_EXPIRED, Closed{Reason: Gone}, &d)
	s.table.Work(s.now, 1000, &d)
	told := 0
	for _, r := range d.Replies {
		if a, waits := r.Answer.(Waiting); waits && a.ClaimOnly == time.Hour {
			told++
		}
	}
	if told != waiters || s.table.claimOnly != len(names) {
		t.Errorf("%d of %d waiters were told that %d names are claim-only", told, waiters, s.table.claimOnly)
	}
}
