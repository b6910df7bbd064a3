//go:build planted

package linear

import (
	"testing"

	"github.com/pawlproject/pawl/internal/planted"
)

// Bugs that show in what callers are told, and nowhere else, are found without
// the simulator's referee.
func TestSimulatedPlanted(t *testing.T) {
	const limit = 400
	for _, bug := range []string{
		"slot given twice", "answered before durable", "release by name", "break that frees at once",
		"readers that raise their own token", "token per name that restarts",
	} {
		planted.Plant(bug)
		found := uint64(0)
		for seed := uint64(1); seed <= limit && found == 0; seed++ {
			all, failure := simHistory(seed)
			if failure != nil && failure.Invariant == "panic" {
				continue
			}
			if _, _, err := verdict(all, ""); err != nil {
				found = seed
				t.Logf("%-40s seed %d: %v", bug, seed, err)
			}
		}
		if found == 0 {
			t.Errorf("%s: not found in %d worlds", bug, limit)
		}
	}
	planted.Plant("")
}
