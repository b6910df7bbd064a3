//go:build planted

package small

import (
	"testing"

	"github.com/pawlproject/pawl/internal/planted"
)

// plants are the bugs that the small worlds find, and the world and invariant
// in which each shows.
var plants = []struct{ bug, world, invariant string }{
	{"deadline from the reply", "renewals", "I5"},
	{"deadline from the last renewal sent", "renewals", "I5"},
	{"heard not logged", "renewals", "I9"},
	{"renewal answered before heard is durable", "renewals", "I5"},
	{"confirm begun before the request", "renewals", "I3"},
	{"answered without confirm", "expiry", "I3"},
	{"waiter granted after its session ended", "expiry", "panic"},
	{"renewal that passes a record of its session", "full", "I5"},
	{"TTL raised without log", "ttls", "I5"},
	{"TTL lowered at once", "ttls", "I5"},
	{"TTL raised in the trust window before the answer", "ttls", "I5"},
	{"answered before durable", "tenures", "I3"},
	{"acknowledged behind a hole", "tenures", "I3"},
	{"cut that may land twice", "tenures", "I4"},
	{"append that does not compare the tenure", "tenures", "I4"},
	{"hole not noticed", "renewals", "I4"},
	{"break that frees at once", "resource", "I5"},
	{"claim left out", "resource", "I6"},
}

// A checker that has caught no planted bug is no checker.
func TestPlanted(t *testing.T) {
	defer planted.Plant("")
	for _, p := range plants {
		t.Run(p.bug, func(t *testing.T) {
			for _, b := range Worlds {
				if b.Name != p.world {
					continue
				}
				planted.Plant(p.bug)
				f := Search(b, 0)
				switch {
				case f.Violation == nil:
					t.Errorf("not found in %d states of %s", f.States, b.Name)
				case f.Violation.Invariant != p.invariant:
					t.Errorf("%s is broken, want %s: %s", f.Violation.Invariant, p.invariant, storyOf(f.Violation))
				default:
					t.Log(storyOf(f.Violation))
				}
			}
		})
	}
}
