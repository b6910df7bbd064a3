package tidy

import (
	"strings"
	"testing"
)

// The plan has no room that is not built, and ARCHITECTURE.md shows all that are.
func TestArrowsAndArchitectureListEveryRoom(t *testing.T) {
	tree := load(t)
	shown := read(t, tree, "ARCHITECTURE.md")
	for _, r := range rooms {
		if !tree.has(r.dir) {
			t.Errorf("%s is planned, and is not there", r.dir)
		}
		if r.dir != "." && !strings.Contains(shown, "]("+r.dir+")") && !strings.Contains(shown, "]("+r.dir+"/") {
			t.Errorf("ARCHITECTURE.md does not show %s", r.dir)
		}
	}
}
