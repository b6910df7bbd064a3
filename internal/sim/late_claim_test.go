package sim

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// The answer to a claim arrives after another server has taken over. The claimant
// serves the tenure that it believes in while the other server works. Its table is
// compared with the log only up to its own opening batch.
func TestClaimAnsweredAfterTheNextTakeOver(t *testing.T) {
	const worlds, activeTTL = 60, 4 * time.Second
	stale := 0
	for seed := range uint64(worlds) {
		w := newWorld(Plan{
			Seed: seed, Servers: 2, Hasty: true, ActiveTTL: activeTTL, Names: 1, FaultsEnd: 12 * time.Second, Stop: 14 * time.Second, End: time.Minute,
			Clients: []ClientPlan{
				{ID: 0, TTL: 3 * time.Second, Callers: 3, Eager: true, Writes: 1},
				{ID: 1, TTL: 3 * time.Second, Callers: 3, Eager: true, Writes: 1},
			},
			FaultRates:    FaultRates{SlowStore: 0.1},
			SnapshotEvery: 1000,
			Faults:        []Fault{{Kind: CrashServer, Target: 1, For: 100 * time.Millisecond}},
		})
		late := w.servers[0]
		w.disk.watched, w.disk.onWatch = kvlog.WhatFresh, func() { w.freeze(&late.process, activeTTL*3/4) }
		w.play()
		if w.failed != nil {
			t.Errorf("seed %d: %v", seed, w.failed)
		}
		for _, x := range w.referee.tenures { //tidy:unordered a count
			if at, deposed := w.referee.deposed[x.tenure]; deposed && at < x.served {
				stale++
			}
		}
	}
	if stale == 0 {
		t.Errorf("of %d claims none was answered after the next one", worlds)
	}
}
