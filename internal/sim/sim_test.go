package sim

import (
	"bytes"
	"testing"
)

// worlds is how many seeds the ordinary tests run.
const worlds = 300

func TestWorlds(t *testing.T) {
	n := worlds
	if testing.Short() {
		n = 60
	}
	sum := Many(1, n, func(seed uint64, f *Failure) {
		t.Errorf("seed %d: %v\n  again: make sim SEED=%d RUNS=1", seed, f, seed)
	})
	if len(sum.Failures) > 0 {
		var story bytes.Buffer
		Explain(&story, sum.Failures[0])
		t.Log(story.String())
	}
	// A world in which nothing happens proves nothing.
	for what, n := range map[string]uint64{
		"grants": sum.Tally.Grants, "expiries": sum.Tally.Expiries, "tenures": sum.Tally.Tenures,
		"refusals": sum.Tally.Refusals, "effects": sum.Tally.Effects, "roll-backs": sum.Tally.Rollbacks, "TTLs": sum.Tally.TTLs,
		"told observers": sum.Tally.Observed, "refused for want of room": sum.Tally.Exhausted, "overruns": sum.Tally.Overruns,
		"renewals spared by a full store":              sum.Tally.Spared,
		"take-overs that go on from what was followed": sum.Tally.Resumed,
		"places taken up behind a hang-up":             sum.Tally.TakenUp, "places that were not kept for so long": sum.Tally.Lapsed,
		"rides": sum.Tally.Rides, "rides that a server ended": sum.Tally.Returns, "rides that a guard ended": sum.Tally.Overtaken,
		"looks at marks": sum.Tally.Looks, "names that riders left claim-only": sum.Tally.ClaimOnly,
		// What the guard buys.
		"updates lost where there is no guard": sum.Tally.Unguarded,
	} {
		if n == 0 {
			t.Errorf("no %s in %d worlds", what, sum.Runs)
		}
	}
	if sum.Tally.Moved == 0 && !testing.Short() {
		t.Errorf("no take-over that cannot go on from what was followed in %d worlds", sum.Runs)
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	for seed := range uint64(30) {
		first, second, told := Run(Draw(seed), false), Run(Draw(seed), false), Run(Draw(seed), true)
		if first.Trace != second.Trace || first.Lived != second.Lived {
			t.Errorf("seed %d: trace %x at %v, then %x at %v", seed, first.Trace, first.Lived, second.Trace, second.Lived)
		}
		if told.Trace != first.Trace {
			t.Errorf("seed %d: telling the story changes it", seed)
		}
	}
}

func TestOtherSeedOtherTrace(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := range uint64(30) {
		r := Run(Draw(seed), false)
		if before, twice := seen[r.Trace]; twice {
			t.Errorf("seeds %d and %d have one trace", before, seed)
		}
		seen[r.Trace] = seed
	}
}
