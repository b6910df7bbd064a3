package main

import "testing"

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1000}, {4 << 20, 1000}, {12 << 20, 400}, {48 << 20, 100}, {1 << 30, 100},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("a live heap of %d bytes: %d %%, %d was expected", c.live, got, c.want)
		}
	}
}
