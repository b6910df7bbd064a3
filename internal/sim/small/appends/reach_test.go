package appends

import (
	"testing"

	"github.com/pawlproject/pawl/internal/sim/small"
)

// goals are what must happen in a world for its search to mean something.
var goals = []struct {
	world, what string
	is          func(w *World) bool
}{
	{"appends", "a tenure notices that the store was set back", func(w *World) bool {
		return w.wasSetBack && w.tenures[0].phase == over
	}},
	{"appends", "a batch is acknowledged behind a hole that a set-back made", func(w *World) bool {
		t := w.tenures[0]
		return t.phase == serving && t.acked > 1 && !w.there(t.batches[t.acked-1]) && w.log[t.acked] != nil
	}},
	{"appends", "a tenure goes on where the store was set back to what it had acknowledged", func(w *World) bool {
		t := w.tenures[0]
		return w.wasSetBack && t.phase == serving && t.acked == 3 && w.there(t.batches[2])
	}},
	{"retries", "a first try lands after the second was answered and taken away", func(w *World) bool {
		b := w.tenures[0].batches
		return w.wasSetBack && len(b) > 1 && b[1].answered && w.left.Late == 0 && len(w.strays) == 1 && w.strays[0].landed == 1
	}},
	{"set-backs", "a tenure lives through two set-backs", func(w *World) bool {
		return w.left.SetBacks == 0 && w.tenures[0].phase == serving && w.head == 4
	}},
	{"taken-over", "two different batches of one number are acknowledged", func(w *World) bool {
		if len(w.tenures) < 2 {
			return false
		}
		a, b := w.tenures[0], w.tenures[1]
		return b.phase == serving && a.acked > 1 && b.batches[0].number <= a.acked
	}},
	{"followed", "a standby goes on from what it has read, on a store that was set back", func(w *World) bool {
		return w.wasSetBack && w.resumed
	}},
	{"followed", "a standby cannot go on from what it has read", func(w *World) bool { return w.moved }},
	{"deposed", "a third tenure serves, and a batch of its is acknowledged", func(w *World) bool {
		return len(w.tenures) == 3 && len(w.tenures[2].batches) == 2 && w.tenures[2].batches[1].answered
	}},
	{"deposed", "a deposed tenure is in force again", func(w *World) bool {
		return len(w.tenures) == 3 && w.tenures[0].phase == serving && string(w.disk.Holds(keys.Tenure())) == string(w.tenures[0].value)
	}},
}

func TestGoalsAreReached(t *testing.T) {
	if testing.Short() {
		t.Skip("the goals lie some thousand states away")
	}
	for _, b := range Worlds {
		left := map[string]func(*World) bool{}
		for _, g := range goals {
			if g.world == b.Name {
				left[g.what] = g.is
			}
		}
		space(b).Search(150*quick, func(w *World) (small.Key, bool) {
			for what, is := range left {
				if is(w) {
					delete(left, what)
				}
			}
			return w.key(), len(left) == 0
		})
		for what := range left {
			t.Errorf("%s: it never happens that %s", b.Name, what)
		}
	}
}
