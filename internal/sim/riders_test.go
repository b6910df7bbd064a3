package sim

import (
	"testing"
	"time"
)

// A rider's lease is broken by force on a store that is full, and its holder is cut off when
// there is room again. What the break closes runs on from when it was decided: no renewal
// may be answered after that, before the holder hears of the break.
func TestBreakOfARiderOnAFullStore(t *testing.T) {
	const worlds, first = 30, 60
	rides := uint64(0)
	for seed := range uint64(worlds) {
		r := Run(Plan{
			Seed: first + seed, Servers: 1, ActiveTTL: 2 * time.Second, Names: 1, SnapshotEvery: 1000,
			FaultsEnd: 25 * time.Second, Stop: 31 * time.Second, End: 2 * time.Minute,
			Clients: []ClientPlan{
				{ID: 0, TTL: 3 * time.Second, Callers: 2, Eager: true, Writes: 60},
				{ID: 1, TTL: 3 * time.Second, Callers: 2, Eager: true, Writes: 60},
			},
			Modes: &Modes{Slots: []uint32{0}},
			Rides: &Rides{Claim: 0.6, Ride: 1, Least: 3 * time.Second, Most: 4 * time.Second},
			Faults: []Fault{
				{Kind: StoreFull, At: 5 * time.Second, For: 6 * time.Second},
				{Kind: ForceBreak, At: 5200 * time.Millisecond},
				{Kind: CutClient, Target: aRider, At: 10950 * time.Millisecond, For: 8 * time.Second},
			},
		}, false)
		if rides += r.Tally.Rides; r.Failure != nil {
			t.Errorf("seed %d: %v", first+seed, r.Failure)
		}
	}
	if rides == 0 {
		t.Errorf("nobody rode in %d worlds", worlds)
	}
}
