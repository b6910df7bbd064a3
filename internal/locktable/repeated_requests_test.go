package locktable

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// An acquire that was taken before is no new one: it waits, or it takes the place of
// one that waits.
func TestRepeatedAcquireIsRecognized(t *testing.T) {
	table, d := New(bounds.DefaultLimits), &Decided{}
	table.Found("test", []byte("secret"), d)
	wall := time.Unix(1_000_000, 0)
	table.Open(1, wall, 0, d)
	now := Now{Wall: wall.Add(time.Second)}
	stream := func(s byte) Attach { return Attach{Ref: s, New: ID{s}, Generation: 1, TTL: time.Hour} }
	acquire := func(s byte, number, replaces uint64) Acquire {
		return Acquire{Ref: s, Session: ID{s}, Generation: 1, Number: number, Replaces: replaces, Names: []string{"n"}}
	}
	for _, c := range []Command{stream(1), stream(2), acquire(1, 1, 0), acquire(2, 1, 0)} {
		table.Decide(now, c, d)
	}
	for what, x := range map[string]struct {
		acquire Acquire
		want    bool
	}{
		"granted":                     {acquire(1, 1, 0), true},
		"waits":                       {acquire(2, 1, 0), true},
		"takes the place of a waiter": {acquire(2, 2, 1), true},
		"takes the place of a lease":  {acquire(1, 2, 1), true},
		"takes the place of nothing":  {acquire(2, 3, 2), false},
		"new":                         {acquire(2, 2, 0), false},
	} {
		if got := table.Asked(x.acquire); got != x.want {
			t.Errorf("%s: asked before: %v, want %v", what, got, x.want)
		}
	}
}
