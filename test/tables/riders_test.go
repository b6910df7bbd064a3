package tables

import (
	"time"

	"pgregory.net/rapid"

	"github.com/pawlproject/pawl/internal/locktable"
)

// claim draws whether a waiter claims, and how long it may ride.
func (h *history) claim(t *rapid.T, w *mWaiter) {
	w.claims = rapid.IntRange(0, 2).Draw(t, "claims") == 0
	if w.claims && w.mode != locktable.Shared && len(w.names) == 1 && rapid.Bool().Draw(t, "rides") {
		w.ride = time.Duration(rapid.IntRange(1, 9).Draw(t, "ride")) * time.Second
	}
}

// countGrades compares what the table counts of leases and names with the model.
func (h *history) countGrades(t *rapid.T) {
	var by locktable.ByGrade
	riders := 0
	for _, l := range h.m.leases {
		switch {
		case l.over:
			continue
		case l.claims:
			by[locktable.Claimed]++
		case l.delay > 0:
			by[locktable.Delayed]++
		default:
			by[locktable.Advisory]++
		}
		if l.ride > 0 {
			riders++
		}
	}
	if c := h.table.Counts(); c.ByGrade != by || c.Riders != riders || c.ClaimOnly != len(h.m.claimOnly) {
		t.Fatalf("the table counts %v by grade, %d riders and %d claim-only names; %v, %d and %d were expected",
			c.ByGrade, c.Riders, c.ClaimOnly, by, riders, len(h.m.claimOnly))
	}
}
