package small

import (
	"maps"
	"strings"
	"testing"
)

// quick is how many states of each world an ordinary test run expands; make
// small expands all.
const quick = 1000

// digestDepth is how far the digest is held against the whole of every state.
const digestDepth = 5

func TestQuick(t *testing.T) {
	for _, b := range Worlds {
		t.Run(b.Name, func(t *testing.T) {
			f := Search(b, quick)
			t.Logf("%d states, %d transitions, depth %d", f.States, f.Transitions, f.Depth)
			if f.Violation != nil {
				t.Error(stepsOf(f.Violation))
			}
		})
	}
}

func stepsOf(v *Violation) string {
	var s strings.Builder
	v.WriteSteps(&s)
	return s.String()
}

// Fields that the digest omits make no difference: a search that compares states by all
// fields reaches the same digests as a search that compares digests.
func TestDigestDistinguishesStates(t *testing.T) {
	for _, b := range Worlds {
		t.Run(b.Name, func(t *testing.T) {
			b.Depth = digestDepth
			all, coarse := newPlans(true), newPlans(false)
			reached := func(p *plans) map[Key]bool {
				seen := map[Key]bool{}
				search(b, 0, func(w *World) (Key, bool) {
					seen[w.key(coarse)] = true
					return w.key(p), false
				})
				return seen
			}
			exactly, abridged := reached(all), reached(coarse)
			if !maps.Equal(exactly, abridged) {
				t.Errorf("%d states when told apart exactly, %d when told apart by the digest", len(exactly), len(abridged))
			}
			t.Logf("%d states", len(abridged))
		})
	}
}

// Every rule of the digest is about a field that is there.
func TestDigestRulesNameFields(t *testing.T) {
	p := newPlans(false)
	for _, b := range Worlds {
		search(b, 200, func(w *World) (Key, bool) { return w.key(p), false })
	}
	met := map[string]bool{}
	for known := range p.known {
		met[known.Name()] = true
		for field := range rules[known.Name()] {
			if _, ok := known.FieldByName(field); !ok {
				t.Errorf("%v has no field %s", known, field)
			}
		}
	}
	for name := range rules {
		if !met[name] {
			t.Errorf("no %s is met", name)
		}
	}
}

// Two searches find the same.
func TestSameAgain(t *testing.T) {
	b := Worlds[0]
	b.Depth = 4
	if x, y := Search(b, 0), Search(b, 0); x != y {
		t.Errorf("found %+v, and then %+v", x, y)
	}
}
