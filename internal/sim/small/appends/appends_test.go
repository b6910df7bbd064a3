package appends

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/sim/small"
)

// quick is how many states of each world an ordinary test run expands; make
// small expands all.
const quick = 400

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

func stepsOf(v *small.Violation) string {
	var s strings.Builder
	v.WriteSteps(&s)
	return s.String()
}

// Every field of the tenure is known to the key of a state, so that a new one is
// not forgotten.
func TestKeyKnowsTheTenure(t *testing.T) {
	w := begin(Worlds[0])
	defer w.close()
	real := reflect.TypeOf(w.tenures[0].real).Elem()
	for i := range real.NumField() {
		name := real.Field(i).Name
		if slices.Contains(taken, name) == slices.Contains(passed, name) {
			t.Errorf("the field %s of a tenure must be either taken or passed over", name)
		}
	}
	if n := len(taken) + len(passed); n != real.NumField() {
		t.Errorf("%d fields of a tenure are named, and it has %d", n, real.NumField())
	}
}
