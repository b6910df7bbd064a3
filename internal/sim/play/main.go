package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/pawlproject/pawl/internal/sim"
)

func main() {
	seed := flag.Uint64("seed", 1, "the first world's seed")
	runs := flag.Int("runs", 1000, "how many worlds, each with the next seed")
	story := flag.Bool("story", false, "tell the first world's story even if it does not fail")
	flag.Parse()

	if *story {
		sim.WriteTimeline(os.Stdout, sim.Run(sim.Draw(*seed), true).Timeline)
	}
	// A world needs little memory and makes much garbage.
	debug.SetGCPercent(400)
	before := processorTime()
	sum := sim.Many(*seed, *runs, func(seed uint64, f *sim.Failure) {
		fmt.Printf("seed %d: %v\n  again: make sim SEED=%d RUNS=1\n", seed, f, seed)
	})
	cpu := processorTime() - before
	if len(sum.Failures) > 0 {
		sim.Explain(os.Stdout, sum.Failures[0])
	}
	t := sum.Tally
	fmt.Printf("events: %d tenures: %d grants: %d expiries: %d refusals: %d effects: %d roll-backs: %d TTLs: %d "+
		"observed: %d exhausted: %d overruns: %d late: %d taken up: %d lapsed: %d trace: %016x\n",
		t.Events, t.Tenures, t.Grants, t.Expiries, t.Refusals, t.Effects, t.Rollbacks, t.TTLs,
		t.Observed, t.Exhausted, t.Overruns, t.Late, t.TakenUp, t.Lapsed, sum.Trace)
	fmt.Printf("rides: %d returned: %d overtaken: %d looks: %d claim-only: %d updates lost without a guard: %d, to who does not claim: %d\n",
		t.Rides, t.Returns, t.Overtaken, t.Looks, t.ClaimOnly, t.Unguarded, t.Unclaimed)
	fmt.Printf("runs: %d failures: %d hours/cpu-minute: %.1f\n", sum.Runs, len(sum.Failures), sum.Lived.Hours()/max(cpu.Minutes(), 1e-9))
	if len(sum.Failures) > 0 {
		os.Exit(1)
	}
}
