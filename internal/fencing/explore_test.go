package fencing

import (
	"fmt"
	"slices"
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
	want := []string{"A's GET x: done", "A sends PUT x; it is on its way", "B's GET x: done", "A's PUT x: done"}
	if got := c.Lacks[0].Trace; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told %q, expected %q", got, want)
	}
}

// A trace tells what later steps depend on: which version was read, who held what was
// written before, why a request was admitted.
func TestTraceTellsWhatMatters(t *testing.T) {
	for _, c := range []struct{ cell, lack, says string }{
		{"etag-s3 overwrite", "nonce", "C's PUT x if its ETag is still 1: done; these are the bytes that A had read, so that the ETag is 1 again"},
		{"generation delete", "tombstone", "B's PUT x if absent: done, generation 2; a copy of the request is still on its way"},
		{"cas-claim effect", "", "B's claim, PUT done-flag if its ETag is still 2: done, ETag 3"},
		{"wait-out overwrite", "delay", "the lease of A ends, and B is granted"},
		{"deadline overwrite", "short", "A's PUT x: admitted (the store's clock says 1), and not yet carried out"},
		{"deadline overwrite", "short", "time goes by: it is 3, B is granted"},
		{"proxy-two overwrite", "shared", "A's PUT x: admitted by replica 1, and not yet carried out"},
		{"lease overwrite", "change", "A's attempt to take the store's lease: done, the store's lease is A's"},
		{"opener append", "verify", "A's open, which raises the epoch: done, epoch 2"},
		{"idem-token effect", "", "B's request for a charge under the key of token 2: done"},
		{"outbox effect", "dedupe", "relay 1's question for the next decision: done, it is A's"},
		{"manifest-any append", "", "the collector's GET manifest: done, it lists 0/a"},
		{"token-in-name delete", "tombstone", "A's LIST: done, 1/"},
		{"revocation overwrite", "drain", "B's revocation of the credentials of older tokens: done; what was admitted before goes on"},
		{"revocation overwrite", "sync", "B's revocation of the credentials of older tokens: done, before it has reached the store"},
	} {
		f := explore(find(t, c.cell).build(c.lack))
		if told := sentences(f.trace); !slices.Contains(told, c.says) {
			t.Errorf("%s without %q: %q is not in %q", c.cell, c.lack, c.says, told)
		}
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
