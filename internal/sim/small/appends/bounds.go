package appends

import "github.com/pawlproject/pawl/internal/sim/small"

// Bounds say how much may happen in a world, in all unless they say otherwise.
type Bounds struct {
	Name string
	// Batches that are sent, openings aside, and how many may be in flight at once.
	Batches, Window int
	// Takes: tenures after the first.
	Takes int
	// Late: requests that stay under way for good, or land and come again. Unheard:
	// answers that are lost.
	Late, Unheard int
	// SetBacks: the store is set back to any state that it was in before.
	SetBacks int
	// Follows: a standby reads on, whose tenure the next one is.
	Follows int
	// ForeignWrites: writes of others to the store, which raise its revision.
	ForeignWrites int
}

// Worlds are those that make small looks through. Each ends when nothing more may
// happen.
var Worlds = []Bounds{
	// One tenure with as many batches in flight as may be, on a store set back once.
	{Name: "appends", Batches: 4, Window: 4, SetBacks: 1},
	// The same where a batch is sent again, and the first request may yet land.
	{Name: "retries", Batches: 3, Window: 3, Late: 1, SetBacks: 1},
	{Name: "unheard", Batches: 2, Window: 2, Late: 1, Unheard: 1, SetBacks: 1},
	// One tenure on a store set back twice.
	{Name: "set-backs", Batches: 3, Window: 3, SetBacks: 2, ForeignWrites: 1},
	// Two tenures, and what either left under way.
	{Name: "taken-over", Batches: 2, Window: 2, Takes: 1, Late: 1, SetBacks: 1},
	// A standby that follows the log, and takes over, on a store set back.
	{Name: "followed", Batches: 2, Window: 2, Takes: 1, Follows: 2, SetBacks: 1},
	// Three tenures, and a store set back to before any of them.
	{Name: "deposed", Batches: 1, Window: 1, Takes: 2, SetBacks: 1},
}

// depthMax lies beyond what any bounds allow.
const depthMax = 200

// Search looks through a world, at no more than limit states; 0: at all.
func Search(b Bounds, limit int) small.Found {
	return space(b).Search(limit, func(w *World) (small.Key, bool) { return w.key(), false })
}

func space(b Bounds) small.Space[*World, action] {
	return small.Space[*World, action]{
		Depth: depthMax, Begin: func() *World { return begin(b) },
		Enabled: (*World).enabled, Do: (*World).do, Describe: (*World).describe,
		Broken: func(w *World) *small.Violation { return w.failure },
		Close:  (*World).close,
	}
}
