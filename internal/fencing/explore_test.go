package fencing

import (
	"fmt"
	"testing"
)

// A deadline at the store is safe exactly where clock skew and upload together are less
// than the lock-delay. Faults are left out: they do not change the arithmetic, as the
// cells of the strategy show.
func TestDeadlineIsSafeIffSkewAndUploadAreLessThanLockDelay(t *testing.T) {
	for skew := range uint8(4) {
		for upload := range uint8(4) {
			for delay := range uint8(8) {
				w := plainWorld(Overwrite, "", nil)
				w.budget = budget{}
				w.prog[2] = nil
				clockwork{skew: skew, upload: upload, delay: delay}.set(w)
				f := explore(w)
				if safe := f.broken == none; safe != (skew+upload < delay) {
					t.Errorf("skew %d, upload %d, lock-delay %d: safe is %v (%s)", skew, upload, delay, safe, f.fault)
				}
			}
		}
	}
}

// The number of states of a world without faults is known: two clients that send one
// request each, and nothing else.
func TestExploreCountsStates(t *testing.T) {
	w := newWorld("x")
	w.budget = budget{}
	for i := range 2 {
		w.prog[i] = []step{{send: func(t *turn) message { return message{op: opGet} }}}
	}
	w.prog[2] = nil
	// Each is idle, waiting, answered or finished; which token was granted last adds to
	// it where only one of them has begun.
	got := explore(w).states
	states := map[string]bool{}
	for a := range 4 {
		for b := range 4 {
			granted := 0
			if a > 0 {
				granted = 1
			}
			if b > 0 {
				granted = 2
			}
			states[fmt.Sprint(a, b, granted)] = true
		}
	}
	if got != len(states) {
		t.Errorf("explored %d states, there are %d", got, len(states))
	}
}

// What is packed is read back: no field that matters is left out.
func TestPackKeepsStates(t *testing.T) {
	w := find(t, "proxy overwrite").build("")
	p := newPacker(w)
	s := w.begin
	s.faults = 1
	s.repeats = 1
	seen := 0
	var next, back state
	for range 200 {
		var all []move
		w.moves(&s, func(mv move) { all = append(all, mv) })
		var after []state
		for _, mv := range all {
			next = s
			if !w.try(&next, mv) {
				continue
			}
			p.unpack(p.pack(&next), &back)
			if back != next {
				t.Fatalf("packed %+v, read %+v", next, back)
			}
			after = append(after, next)
		}
		if len(after) == 0 {
			break
		}
		seen += len(after)
		s = after[seen%len(after)]
	}
	if seen < 10 {
		t.Errorf("only %d states were looked at", seen)
	}
}

// A shortest counter-example is told in plain words.
func TestTraceIsToldInPlainWords(t *testing.T) {
	c, _, err := find(t, "nothing overwrite").judge()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"A sends GET x", "A's GET x: done", "A sends PUT x", "B sends GET x", "B's GET x: done", "A's PUT x: done"}
	if got := c.Lacks[0].Trace; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told %q, expected %q", got, want)
	}
}

func BenchmarkExplore(b *testing.B) {
	c := cell{}
	for _, one := range token().cells {
		if one.operation == Overwrite {
			c = one
		}
	}
	states := 0
	for b.Loop() {
		states += explore(c.build("")).states
	}
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
}
