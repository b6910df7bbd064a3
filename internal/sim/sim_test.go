package sim

import (
	"os"
	"strconv"
	"testing"
)

func TestOne(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	n, _ := strconv.ParseUint(os.Getenv("RUNS"), 10, 64)
	var total Tally
	fails := 0
	for i := range max(n, 1) {
		p := Draw(seed + i)
		if os.Getenv("SHOW") != "" {
			println(seed + i)
		}
		p.rethrow = os.Getenv("RETHROW") != ""
		r := Run(p, n <= 1)
		total.Events += r.Tally.Events
		total.Grants += r.Tally.Grants
		total.Expiries += r.Tally.Expiries
		total.Tenures += r.Tally.Tenures
		total.Refusals += r.Tally.Refusals
		total.Effects += r.Tally.Effects
		total.Rollbacks += r.Tally.Rollbacks
		if r.Failure != nil {
			fails++
			t.Logf("seed %d at %v: %v", seed+i, r.Failure.At, r.Failure)
		}
		if n <= 1 {
			t.Logf("%+v", p)
			WriteStory(os.Stdout, r.Story)
		}
	}
	t.Logf("fails %d %+v", fails, total)
}
