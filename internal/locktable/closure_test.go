package locktable

import (
	"testing"
	"time"

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
