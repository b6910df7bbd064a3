//go:build planted

package appends

import (
	"testing"

	"github.com/pawlproject/pawl/internal/planted"
)

// plants are the bugs that these worlds find, and the world in which each shows.
var plants = []struct{ bug, world string }{
	{"roll-back seen in the last batch alone", "appends"},
	{"append that is tried again and forgets what its first try followed", "retries"},
	{"append that does not compare what it follows", "appends"},
	{"append that does not compare the tenure", "deposed"},
	{"tenure known by its revision alone", "deposed"},
	{"cut that may land twice", "taken-over"},
	{"hole not noticed", "taken-over"},
	{"deposed server that reports a roll-back", "deposed"},
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
				if f.Violation == nil {
					t.Fatalf("not found in %d states of %s", f.States, b.Name)
				}
				t.Log(storyOf(f.Violation))
			}
		})
	}
}
