package guard

import (
	"errors"
	"testing"
)

const cellA, cellB = "a-0000000000000001", "b-0000000000000002"

func mark(t Token) Mark { return Mark{Token: t, Cell: cellA} }

func TestDecideToken(t *testing.T) {
	seen5 := State{Cell: cellA, Seen: 5}
	for _, c := range []struct {
		name string
		s    State
		m    Mark
		want Verdict
		seen Token
	}{
		{"first", State{}, mark(1), Advance, 1},
		{"first, the highest", State{}, mark(Max), Advance, Max},
		{"equal", seen5, mark(5), Pass, 5},
		{"higher", seen5, mark(6), Advance, 6},
		{"lower", seen5, mark(4), Stale, 5},
		{"zero", seen5, mark(0), Missing, 5},
		{"zero on a fresh resource", State{}, mark(0), Missing, 0},
		{"above the highest", seen5, mark(Max + 1), Malformed, 5},
		{"all bits", seen5, mark(1<<64 - 1), Malformed, 5},
		{"no cell", seen5, Mark{Token: 6}, Malformed, 5},
		{"another cell, higher", seen5, Mark{Token: 6, Cell: cellB}, Foreign, 5},
		{"another cell, equal", seen5, Mark{Token: 5, Cell: cellB}, Foreign, 5},
		{"another cell, lower", seen5, Mark{Token: 4, Cell: cellB}, Foreign, 5},
		{"a mark without a cell", State{Seen: 5}, mark(6), Foreign, 5},
		{"a cell without a mark", State{Cell: cellA}, mark(1), Advance, 1},
		{"another cell without a mark", State{Cell: cellB}, mark(1), Foreign, 0},
		{"unknown, below the floor", State{Floor: 5}, mark(4), Stale, 0},
		{"unknown, at the floor", State{Floor: 5}, mark(5), Advance, 5},
		{"known, below the floor", State{Cell: cellA, Seen: 3, Floor: 5}, mark(4), Stale, 3},
		{"known, floor below", State{Cell: cellA, Seen: 7, Floor: 5}, mark(6), Stale, 7},
		{"a mark out of bounds is closed", State{Cell: cellA, Seen: Max + 1}, mark(Max), Stale, Max + 1},
	} {
		got, v := Decide(Monotonic, c.s, c.m)
		if v != c.want || got.Seen != c.seen {
			t.Errorf("%s: %v, mark %d; want %v, %d", c.name, v, got.Seen, c.want, c.seen)
		}
		if v >= Stale && got != c.s {
			t.Errorf("%s: a refusal left a trace: %+v", c.name, got)
		}
		if v < Stale && got.Cell != c.m.Cell {
			t.Errorf("%s: the cell was not kept", c.name)
		}
	}
}

func TestDecidePolicies(t *testing.T) {
	base := State{Cell: cellA, Seen: 5, Seq: 10}
	done := State{Cell: cellA, Seen: 5, Done: true, Print: [32]byte{1}}
	step := func(t Token, prev, seq uint64) Mark { return Mark{Token: t, Cell: cellA, Prev: prev, Seq: seq} }
	key := func(t Token, k string, print byte, seq uint64) Mark {
		return Mark{Token: t, Cell: cellA, Key: k, Print: [32]byte{print}, Seq: seq}
	}
	for _, c := range []struct {
		name string
		p    Policy
		s    State
		m    Mark
		want Verdict
		seen Token
		seq  uint64
	}{
		{"exact next", Exact, base, step(5, 10, 12), Pass, 5, 12},
		{"exact next, higher token", Exact, base, step(6, 10, 11), Advance, 6, 11},
		{"exact again", Exact, base, step(5, 9, 10), Duplicate, 5, 10},
		{"exact overlapping", Exact, base, step(5, 9, 12), Duplicate, 5, 10},
		{"exact gap", Exact, base, step(5, 11, 12), Gap, 5, 10},
		{"exact standing", Exact, base, step(5, 10, 10), Malformed, 5, 10},
		{"exact backwards", Exact, base, step(5, 10, 9), Malformed, 5, 10},
		{"exact next, lower token", Exact, base, step(4, 10, 11), Stale, 5, 10},
		{"exact from nothing", Exact, State{}, step(1, 0, 1), Advance, 1, 1},
		{"once new", Once, State{Cell: cellA, Seen: 5}, key(5, "k", 1, 0), Pass, 5, 0},
		{"once new, higher token", Once, State{Cell: cellA, Seen: 5}, key(6, "k", 1, 0), Advance, 6, 0},
		{"once again", Once, done, key(5, "k", 1, 0), Replay, 5, 0},
		{"once again, higher token", Once, done, key(6, "k", 1, 0), Replay, 6, 0},
		{"once again, lower token", Once, done, key(4, "k", 1, 0), Stale, 5, 0},
		{"once, another operation", Once, done, key(6, "k", 2, 0), Conflict, 5, 0},
		{"once without a key", Once, State{}, key(5, "", 1, 0), Missing, 0, 0},
		{"once, dropped", Once, base, key(5, "k", 1, 10), Forgotten, 5, 10},
		{"once, without order after a drop", Once, base, key(6, "k", 1, 0), Forgotten, 5, 10},
		{"once, younger than the dropped", Once, base, key(5, "k", 1, 11), Pass, 5, 10},
		{"no policy", 0, base, mark(6), Malformed, 5, 10},
		{"a policy of the future", Once + 1, base, mark(6), Malformed, 5, 10},
	} {
		got, v := Decide(c.p, c.s, c.m)
		if v != c.want || got.Seen != c.seen || got.Seq != c.seq {
			t.Errorf("%s: %v, mark %d, seq %d; want %v, %d, %d", c.name, v, got.Seen, got.Seq, c.want, c.seen, c.seq)
		}
		if v >= Stale && got != c.s {
			t.Errorf("%s: a refusal left a trace: %+v", c.name, got)
		}
		if c.p == Once && v < Stale && (!got.Done || got.Print != c.m.Print) {
			t.Errorf("%s: no record was made", c.name)
		}
	}
}

func TestVerdictErr(t *testing.T) {
	s := State{Cell: cellA, Seen: 5, Floor: 7}
	all := []error{ErrStale, ErrOutOfTurn, ErrForeign, ErrMissing, ErrMalformed, ErrUnknown}
	for v, want := range map[Verdict]error{
		Pass: nil, Advance: nil, Replay: nil,
		Stale: ErrStale, Foreign: ErrForeign, Missing: ErrMissing, Malformed: ErrMalformed,
		Duplicate: ErrOutOfTurn, Gap: ErrOutOfTurn, Conflict: ErrOutOfTurn, Forgotten: ErrOutOfTurn,
		0: ErrMalformed, Malformed + 1: ErrMalformed,
	} {
		err := v.Err("orders/7", s, mark(4))
		for _, e := range all {
			if errors.Is(err, e) != (e == want) {
				t.Errorf("%v: %v is %v: %t", v, err, e, errors.Is(err, e))
			}
		}
		if e, ok := errors.AsType[*StaleError](err); ok && *e != (StaleError{"orders/7", 4, 7, v}) {
			t.Errorf("%v: %+v", v, *e)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for v := Pass; v <= Malformed; v++ {
		seen[v.String()] = true
	}
	for p := Monotonic; p <= Once; p++ {
		seen[p.String()] = true
	}
	if len(seen) != int(Malformed)+int(Once) || seen[""] {
		t.Errorf("names are missing or the same: %v", seen)
	}
	if got := Verdict(0).String() + Verdict(99).String() + Policy(0).String() + Policy(99).String(); got !=
		"verdict(0)verdict(99)policy(0)policy(99)" {
		t.Error(got)
	}
}
