package tables

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// slotCounts are numbers of slots near limits: the bits of a machine word, the count
// from which on the table treats many holders differently, and the largest allowed.
var slotCounts = []uint32{63, 64, 65, 1023, 1024, 1025, bounds.SlotsMax}

// gather draws how many slots names have. Most histories have few; in some, so
// many hold one name from the beginning on, slots of it or shared, that what
// happens after happens at a boundary.
func (h *history) gather(t *rapid.T) {
	if h.slots = 2; rapid.IntRange(0, 7).Draw(t, "many holders") > 0 {
		h.slots = rapid.SampledFrom([]uint32{1, 2, 2, 3}).Draw(t, "slots")
		return
	}
	n := rapid.SampledFrom(slotCounts).Draw(t, "slots")
	h.slots, h.manyHolders = n, int(n)-rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "free")
	name, s := h.live(t, true)
	c := locktable.Acquire{
		Ref: s.stream, Session: h.id(name), Generation: s.generation, Names: pool[:1], Mode: locktable.Slots, Slots: n,
	}
	if rapid.IntRange(0, 3).Draw(t, "shared") == 0 {
		c.Mode, c.Slots = locktable.Shared, 0
	}
	h.manyMode, h.manySlots = c.Mode, c.Slots
	given := make([]bool, n+1)
	var fence guard.Token
	for range h.manyHolders {
		h.numbers[name]++
		c.Number = h.numbers[name]
		events := h.decide(c).Events
		if len(events) != 1 || len(events[0].Grants) != 1 || guard.Token(events[0].Token) <= h.m.last {
			t.Fatalf("%s #%d, of a name with many holders, gets %v", name, c.Number, events)
		}
		e, g := events[0], events[0].Grants[0]
		switch h.m.last = guard.Token(e.Token); {
		case c.Mode == locktable.Shared && fence == 0, c.Mode == locktable.Slots:
			fence = h.m.last
		}
		if c.Mode == locktable.Slots && (g.Slot < 1 || g.Slot > n || given[g.Slot]) || guard.Token(g.Fence) != fence {
			t.Fatalf("%s #%d, of a name with many holders, gets %v", name, c.Number, g)
		}
		given[g.Slot] = true
		h.m.leases = append(h.m.leases, &mLease{
			token: h.m.last, session: name, names: slices.Clone(c.Names), mode: c.Mode, slots: c.Slots, number: c.Number,
			fences: []guard.Token{fence}, taken: []uint32{g.Slot},
		})
	}
}

// want draws what is asked for.
func (h *history) want(t *rapid.T, w *mWaiter) (names []string, delay time.Duration) {
	defer func() { h.claim(t, w) }()
	w.names = slices.Clone(pool[:1])
	if h.manyHolders > 0 && rapid.Bool().Draw(t, "many holders of the name") {
		w.mode, w.slots = h.manyMode, h.manySlots
		return w.names, 0
	}
	w.names[0] = rapid.SampledFrom(pool).Draw(t, "name")
	switch rapid.IntRange(0, 5).Draw(t, "mode") {
	case 0, 1:
		w.mode = locktable.Shared
	case 2:
		w.mode, w.slots = locktable.Slots, h.slots
	}
	if rapid.IntRange(0, 3).Draw(t, "more") == 0 {
		for _, n := range rapid.Permutation(pool).Draw(t, "names") {
			if !slices.Contains(w.names, n) && len(w.names) < 2 {
				w.names = append(w.names, n)
			}
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "delayed") == 0 {
		delay = time.Duration(rapid.IntRange(1, 9).Draw(t, "delay")) * time.Second
	}
	w.delay = delay
	return w.names, delay
}
