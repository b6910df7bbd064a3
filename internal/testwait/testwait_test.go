package testwait

import (
	"testing"
	"time"
)

func TestHolds(t *testing.T) {
	n := 0
	if !Holds(time.Minute, func() bool { n++; return n == 3 }) || n != 3 {
		t.Errorf("looked %d times, want until the condition held, 3 times", n)
	}
	n = 0
	if Holds(0, func() bool { n++; return false }) || n == 0 {
		t.Errorf("looked %d times under no bound, want at least once, and false", n)
	}
}

func TestReps(t *testing.T) {
	defer func(n int) { *reps = n }(*reps)
	for _, test := range []struct{ flag, full, want int }{
		{0, 1000, 1000},
		{3, 1000, 3},
		{3, 2, 2},
	} {
		*reps = test.flag
		if got := Reps(test.full); got != test.want {
			t.Errorf("-reps %d: %d of %d, want %d", test.flag, got, test.full, test.want)
		}
	}
	t.Setenv(RepsEnv, "7")
	if got := repsFromEnv(); got != 7 {
		t.Errorf("%s=7 gives %d", RepsEnv, got)
	}
}
