package guard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a resource that remembers everything it ever did, and judges by
// looking through all of it.
type model struct {
	policy Policy
	floor  Token
	// kept is the number below which Once has dropped its records.
	kept uint64
	did  []Mark
}

func (m *model) judge(x Mark) Verdict {
	any := func(is func(old Mark) bool) bool { return slices.ContainsFunc(m.did, is) }
	highest := uint64(0)
	for _, old := range m.did {
		highest = max(highest, old.Seq)
	}
	switch {
	case x.Token < 1:
		return Missing
	case x.Token > 9007199254740991, x.Cell == "":
		return Malformed
	case m.policy == Once && x.Key == "":
		return Missing
	case m.policy == Exact && x.Prev >= x.Seq:
		return Malformed
	case any(func(old Mark) bool { return old.Cell != x.Cell }):
		return Foreign
	case x.Token < m.floor, any(func(old Mark) bool { return old.Token > x.Token }):
		return Stale
	case m.policy == Exact && highest > x.Prev:
		return Duplicate
	case m.policy == Exact && highest < x.Prev:
		return Gap
	case m.policy == Once && m.done(x) && any(func(old Mark) bool { return old.Key == x.Key && old.Print != x.Print }):
		return Conflict
	case m.policy == Once && m.done(x):
		return Replay
	case m.policy == Once && m.kept > 0 && x.Seq <= m.kept:
		return Forgotten
	case any(func(old Mark) bool { return old.Token == x.Token }):
		return Pass
	}
	return Advance
}

// done reports whether a record of x's key is kept.
func (m *model) done(x Mark) bool {
	return slices.ContainsFunc(m.did, func(old Mark) bool {
		return old.Key == x.Key && (m.kept == 0 || old.Seq > m.kept)
	})
}

// TestDecideAgainstModel gives the same operations to Decide and to the model. It looks
// up the state for Decide as an adapter does.
func TestDecideAgainstModel(t *testing.T) {
	verdicts := map[string]int{}
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		m := model{policy: Policy(1 + rnd.IntN(3))}
		s := State{}
		records := map[string]Mark{}
		if rnd.IntN(3) == 0 {
			m.floor = Token(rnd.IntN(4))
			s.Floor = m.floor
		}
		for range 25 {
			x := randomMark(rnd, m.policy)
			if m.policy == Once && rnd.IntN(8) == 0 {
				m.kept = max(m.kept, rnd.Uint64N(6))
				s.Seq = m.kept
				for key, old := range records {
					if m.kept > 0 && old.Seq <= m.kept {
						delete(records, key)
					}
				}
			}
			in := s
			if old, ok := records[x.Key]; ok && m.policy == Once {
				in.Done, in.Print = true, old.Print
			}
			want := m.judge(x)
			out, got := Decide(m.policy, in, x)
			if got != want {
				t.Fatalf("seed %d, %v: %+v after %+v: %v, the model says %v", seed, m.policy, x, m.did, got, want)
			}
			verdicts[fmt.Sprint(m.policy, got)]++
			if got >= Stale {
				if out != in {
					t.Fatalf("seed %d: refused, and the state went from %+v to %+v", seed, in, out)
				}
				continue
			}
			if out.Seen != x.Token || out.Seen < s.Seen || out.Seq < s.Seq {
				t.Fatalf("seed %d: passed, and the state went from %+v to %+v", seed, in, out)
			}
			if got != Replay {
				records[x.Key] = x
			} else {
				// What a replay shows is a claim: it raises the mark and runs nothing.
				x = Mark{Token: x.Token, Cell: x.Cell}
			}
			m.did = append(m.did, x)
			out.Done, out.Print = false, [32]byte{}
			s = out
		}
	}
	// Monotonic 6, Exact 8, Once 9: nothing that can be decided was left out.
	if len(verdicts) != 23 {
		t.Errorf("the walk met %d kinds of decision: %v", len(verdicts), verdicts)
	}
}

func randomMark(rnd *rand.Rand, p Policy) Mark {
	x := Mark{Token: Token(1 + rnd.IntN(5)), Cell: cellA}
	switch rnd.IntN(24) {
	case 0:
		x.Token = 0
	case 1:
		x.Token = Max + 1 + Token(rnd.Uint64N(1<<40))
	case 2:
		x.Cell = cellB
	case 3:
		x.Cell = ""
	}
	x.Prev, x.Seq = rnd.Uint64N(6), rnd.Uint64N(8)
	if p == Once {
		// The place of a key is part of it.
		n := rnd.IntN(5)
		x.Key, x.Seq = []string{"", "k1", "k2", "k3", "k4"}[n], []uint64{1, 0, 2, 4, 7}[n]
		x.Print = [32]byte{byte(rnd.IntN(2))}
	}
	return x
}
