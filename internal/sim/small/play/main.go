package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/planted"
	"github.com/pawlproject/pawl/internal/sim/small"
)

// collectAt spares the collector, which would otherwise take a third of the
// time: what lives is small, and what is thrown away is much.
const collectAt = 800

func main() {
	world := flag.String("world", "", "look through this world alone")
	limit := flag.Int("states", 0, "expand at most so many states; 0: all within the bounds")
	bug := flag.String("bug", "", "plant this bug (built with -tags planted)")
	depth := flag.Int("depth", 0, "another depth than the world's")
	flag.Parse()
	debug.SetGCPercent(collectAt)
	planted.Plant(*bug)

	broken := false
	for _, b := range small.Worlds {
		if *world != "" && *world != b.Name {
			continue
		}
		if *depth > 0 {
			b.Depth = *depth
		}
		from := clock.System().Now()
		f := small.Search(b, *limit)
		took := clock.System().Now().Longer(from).Round(100 * time.Millisecond)
		verdict := "no violation"
		if f.Violation != nil {
			verdict, broken = "VIOLATION", true
		} else if !f.Whole {
			verdict = "no violation so far"
		}
		complete := ""
		if f.Complete {
			complete = " (complete)"
		}
		fmt.Printf("small: %s: %d states, %d transitions, depth %d%s, %v: %s\n",
			b.Name, f.States, f.Transitions, f.Depth, complete, took, verdict)
		if f.Violation != nil {
			f.Violation.WriteStory(os.Stdout)
		}
	}
	if broken {
		os.Exit(1)
	}
}
