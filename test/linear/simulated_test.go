package linear

import (
	"errors"
	"flag"
	"slices"
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/sim"
)

var simulated = flag.Int("simulated", 300, "how many simulated worlds, from the first seed on")

// simHistory returns the calls and answers of the simulated world of a seed. It returns
// none when the store is set back, since answers are lost then, and none when clocks
// drift more than the guarantees allow.
func simHistory(seed uint64) ([]record, *sim.Failure) {
	p := sim.Draw(seed)
	r, acts := sim.Record(p)
	if r.Tally.Rollbacks > 0 || p.Wild || p.ManyHolders() {
		return nil, r.Failure
	}
	verbs := map[sim.Verb]verb{
		sim.VerbAcquire: verbAcquire, sim.VerbTry: verbTry, sim.VerbRelease: verbRelease, sim.VerbCheck: verbCheck,
		sim.VerbEnd: verbDeadline, sim.VerbLost: verbLost,
	}
	outcomes := map[sim.Outcome]outcome{sim.Unknown: unknown, sim.Done: done, sim.Held: held, sim.Gone: gone}
	modes := map[locktable.Mode]mode{locktable.Exclusive: exclusive, locktable.Shared: shared, locktable.Slots: slotted}
	var all []record
	for _, a := range acts {
		all = append(all, record{
			verb: verbs[a.Verb], outcome: outcomes[a.Outcome], client: a.Client, name: a.Name, mode: modes[a.Mode],
			token: uint64(a.Token), fence: uint64(a.Fence), slot: int(a.Slot), slots: int(a.Slots), call: a.Call, ret: a.Return,
		})
	}
	return all, r.Failure
}

// All answers to callers in a simulated world, in all modes, with crashes, take-overs
// and lost answers, are answers that a simple lock could give (subtest told). Bugs that
// the simulator's own referee finds are in the subtest referee.
func TestSimulatedLinearizable(t *testing.T) {
	worlds := *simulated
	failures := map[uint64]*sim.Failure{}
	t.Run("told", func(t *testing.T) { simulatedTold(t, worlds, failures) })
	t.Run("referee", func(t *testing.T) {
		for seed, failure := range failures {
			t.Errorf("seed %d: %v", seed, failure)
		}
	})
}

// simulatedTold compares the histories of some worlds with a simple lock, and collects
// the failures that the referee found. A world that ends in a panic is left out.
func simulatedTold(t *testing.T, worlds int, failures map[uint64]*sim.Failure) {
	sum := map[string]int{}
	checked, lost := 0, 0
	for seed := *first; seed < *first+uint64(worlds); seed++ {
		all, failure := simHistory(seed)
		if failure != nil {
			failures[seed] = failure
		}
		if all == nil || failure != nil && failure.Invariant == "panic" {
			sum["left out"]++
			continue
		}
		n, unknown, err := verdict(all, t.ArtifactDir())
		checked, lost = checked+n, lost+unknown
		if err != nil {
			t.Errorf("seed %d: %v\n  again, and keep the drawing: go test ./linear -run SimulatedLinearizable -artifacts -seed %d -simulated 1", seed, err, seed)
			break
		}
		count(sum, all)
	}
	t.Logf("%d histories of %d worlds, %d given up: %v", checked, worlds, lost, sum)
	if lost*100 > checked*unknownMax {
		t.Errorf("porcupine gave up on %d of %d histories", lost, checked)
	}
	for _, what := range []string{
		"acquire done", "acquire unknown", "try done", "try held", "release done", "release unknown", "release gone",
		"check done", "deadline unknown", "session lost unknown", "ghosts",
	} {
		if sum[what] == 0 && worlds >= 200 && !t.Failed() {
			t.Errorf("no %q in %d worlds", what, worlds)
		}
	}
}

// Simulated histories that are tampered with in one place are refused.
func TestSimulatedTampered(t *testing.T) {
	tampered := map[string]int{}
	for seed := uint64(1); seed <= 40; seed++ {
		all, _ := simHistory(seed)
		for i, g := range all {
			if !g.grants() || g.mode != exclusive {
				continue
			}
			if tampered["no end"] < 20 && followed(all, g) {
				without := slices.DeleteFunc(slices.Clone(all), func(r record) bool {
					return r.token == g.token && r.name == g.name && (r.verb == verbRelease || r.verb == verbDeadline)
				})
				refuses(t, seed, "no end", without)
				tampered["no end"]++
			}
			if tampered["fence"] < 20 {
				other := slices.Clone(all)
				other[i].fence++
				refuses(t, seed, "fence", other)
				tampered["fence"]++
			}
		}
	}
	if tampered["no end"] < 10 || tampered["fence"] < 10 {
		t.Errorf("only %v were tampered with", tampered)
	}
}

func refuses(t *testing.T, seed uint64, what string, all []record) {
	t.Helper()
	if _, _, err := verdict(all, ""); !errors.Is(err, errNoOrder) {
		t.Errorf("seed %d, tampered with (%s): %v", seed, what, err)
	}
}
