package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/pawlproject/pawl/internal/sim"
	"github.com/pawlproject/pawl/internal/sim/small"
	"github.com/pawlproject/pawl/internal/sim/small/appends"
)

// collectAt spares the collector in a small world, where what lives is small, and
// what is thrown away is much.
const collectAt = 800

var (
	seed  = flag.Uint64("seed", 0, "look at the simulated world of this seed first")
	seeds = flag.Uint64("seeds", 0, "look through the simulated worlds from seed 1 to this one")
	world = flag.String("world", "", "look through this small world instead")
)

func main() {
	flag.Parse()
	if *world != "" {
		v, ok := inSmall(*world)
		if !ok {
			fmt.Fprintf(os.Stderr, "find: there is no small world %q\n", *world)
			os.Exit(2)
		}
		if v != nil {
			found(0, v.Invariant, v.What)
		}
		os.Exit(1)
	}
	if *seed != 0 {
		if f := sim.Run(sim.Draw(*seed), false).Failure; f != nil {
			found(*seed, f.Invariant, f.What)
		}
	}
	if first, f := inSim(*seeds); f != nil {
		found(first, f.Invariant, f.What)
	}
	os.Exit(1)
}

// found prints what was found, the seed (0: in a small world) and the invariant
// first, and ends.
func found(seed uint64, invariant, what string) {
	what, _, _ = strings.Cut(what, "\n")
	fmt.Printf("%d %s %s\n", seed, invariant, what)
	os.Exit(0)
}

// inSmall looks through a small world, and reports whether there is one of that
// name; nil: nothing is broken in it.
func inSmall(name string) (*small.Violation, bool) {
	debug.SetGCPercent(collectAt)
	if i := slices.IndexFunc(small.Worlds, func(b small.Bounds) bool { return b.Name == name }); i >= 0 {
		return small.Search(small.Worlds[i], 0).Violation, true
	}
	if i := slices.IndexFunc(appends.Worlds, func(b appends.Bounds) bool { return b.Name == name }); i >= 0 {
		return appends.Search(appends.Worlds[i], 0).Violation, true
	}
	return nil, false
}

// inSim looks for the first seed from 1 on, up to limit, whose world fails.
func inSim(limit uint64) (seed uint64, found *sim.Failure) {
	width := uint64(16 * runtime.GOMAXPROCS(0))
	for first := uint64(1); first <= limit; first += width {
		failures := make([]*sim.Failure, min(width, limit-first+1))
		var all sync.WaitGroup
		side := runtime.GOMAXPROCS(0)
		for lane := range side {
			all.Go(func() {
				for i := lane; i < len(failures); i += side {
					failures[i] = sim.Run(sim.Draw(first+uint64(i)), false).Failure
				}
			})
		}
		all.Wait()
		for i, f := range failures {
			if f != nil {
				return first + uint64(i), f
			}
		}
	}
	return 0, nil
}
