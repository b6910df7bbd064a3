package main

import "testing"

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1000}, {2 << 20, 1000}, {8 << 20, 400}, {32 << 20, 100}, {1 << 30, 100},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("a live heap of %d bytes: %d %%, %d was expected", c.live, got, c.want)
		}
	}
}
