package sim

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// What is promised after the store was set back counts: a session that is ended under
// its holder is found, however the session began.
func TestGrantsAfterSetBackCount(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(Plan{
			Seed: seed, Servers: 2, ActiveTTL: time.Second, Names: 1, FaultsEnd: 15 * time.Second, Stop: 20 * time.Second, End: time.Minute,
			Clients:       []ClientPlan{{TTL: 3 * time.Second, Callers: 2, Eager: true, Writes: 1}},
			SnapshotEvery: 1000,
			Faults:        []Fault{{Kind: RollBack, At: 4 * time.Second, For: 500 * time.Millisecond}},
		})
		ended := false
		w.at(12*time.Second, func() {
			c, s := w.clients[0], w.active()
			if s == nil || !c.up || !w.referee.rolled {
				t.Fatalf("seed %d: nobody serves the client after the set-back", seed)
			}
			ended = true
			s.add([]locktable.Command{locktable.Close{Session: c.session}}, nil)
		})
		w.play()
		if !ended || w.failed == nil || w.failed.Invariant != "I5" {
			t.Errorf("seed %d: a session was ended under its holder after the set-back, and the referee says %v", seed, w.failed)
		}
	}
}

// What is lost is void: nobody is held to what was promised on the strength of it, as
// long as a holder may believe in it and no longer.
func TestLostGrantsBindOnlyUntilDeadline(t *testing.T) {
	w := newWorld(Plan{Seed: 1, Servers: 1, ActiveTTL: time.Second})
	r, id := w.referee, locktable.ID{1}
	lost, kept := &servedTenure{acked: map[uint64]bool{3: true}}, &servedTenure{}
	r.promises.given[id] = []promise{{until: 5 * time.Second, by: lost}, {until: 9 * time.Second, by: kept}}
	r.misleads(lost)
	if n := len(r.promises.given[id]); n != 1 || !lost.misled || kept.misled {
		t.Errorf("%d promises are left, misled: %v and %v", n, lost.misled, kept.misled)
	}
	for at, excused := range map[time.Duration]bool{4 * time.Second: true, 6 * time.Second: false} { //tidy:unordered each moment for itself
		if w.now = at; r.excused(id) != excused {
			t.Errorf("at %v excused is %v", at, !excused)
		}
	}
}
