package cell

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, time.Second, time.Hour} {
		h.add(d)
	}
	n, sum, within := h.Read()
	if want := time.Hour + time.Second + 201*time.Microsecond; n != 5 || sum != want {
		t.Errorf("%d durations of %v; 5 of %v were expected", n, sum, want)
	}
	for i, want := range map[int]uint64{0: 2, 1: 3, 11: 3, 12: 4, len(Bounds) - 1: 4} {
		if within[i] != want {
			t.Errorf("%d within %v; %d were expected", within[i], Bounds[i], want)
		}
	}
}
