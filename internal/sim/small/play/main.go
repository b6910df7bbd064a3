// Command play looks through the small worlds, each in full: go run
// ./internal/sim/small/play. It ends with status 1 when an invariant is broken.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/sim/small"
	"github.com/pawlproject/pawl/internal/sim/small/appends"
)

// collectAt spares the collector, which would otherwise take a third of the
// time: what lives is small, and what is thrown away is much.
const collectAt = 800

var (
	world = flag.String("world", "", "look through this world alone")
	limit = flag.Int("states", 0, "expand at most so many states; 0: all within the bounds")
	depth = flag.Int("depth", 0, "another depth than the world's, where it has one")
)

func main() {
	flag.Parse()
	debug.SetGCPercent(collectAt)

	whole := true
	for _, b := range small.Worlds {
		if *depth > 0 {
			b.Depth = *depth
		}
		whole = search(b.Name, func() small.Found { return small.Search(b, *limit) }) && whole
	}
	for _, b := range appends.Worlds {
		whole = search(b.Name, func() small.Found { return appends.Search(b, *limit) }) && whole
	}
	if !whole {
		os.Exit(1)
	}
}

// search looks through a world, if it is asked for, and reports whether nothing is
// broken in it.
func search(name string, search func() small.Found) bool {
	if *world != "" && *world != name {
		return true
	}
	from := clock.System().Now()
	f := search()
	took := clock.System().Now().Longer(from).Round(100 * time.Millisecond)
	verdict := "no violation"
	if f.Violation != nil {
		verdict = "VIOLATION"
	} else if !f.Whole {
		verdict = "no violation so far"
	}
	complete := ""
	if f.Complete {
		complete = " (complete)"
	}
	fmt.Printf("small: %s: %d states, %d transitions, depth %d%s, %v: %s\n",
		name, f.States, f.Transitions, f.Depth, complete, took, verdict)
	if f.Violation != nil {
		f.Violation.WriteSteps(os.Stdout)
	}
	return f.Violation == nil
}
