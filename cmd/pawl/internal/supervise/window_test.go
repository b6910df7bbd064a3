package supervise

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

func TestMinTTLIsSmallest(t *testing.T) {
	check := func(killAfter time.Duration) {
		t.Helper()
		ttl := MinTTL(killAfter)
		if !Fits(ttl, killAfter) {
			t.Fatalf("kill-after %v: %v does not fit", killAfter, ttl)
		}
		if less := ttl - time.Millisecond; Fits(less, killAfter) {
			t.Fatalf("kill-after %v: %v fits, %v is not the least", killAfter, less, ttl)
		}
		if ttl%time.Millisecond != 0 {
			t.Fatalf("kill-after %v: %v is not in whole milliseconds", killAfter, ttl)
		}
	}
	for d := time.Duration(0); d < 30*time.Second; d += 7*time.Millisecond + 13 {
		check(d)
	}
	for _, d := range []time.Duration{time.Minute, time.Hour, 10 * time.Hour} {
		check(d)
	}
}

func TestDefaultsFit(t *testing.T) {
	for ttl := bounds.TTLMin; ttl < time.Minute; ttl += 11 * time.Millisecond {
		if k := DefaultKillAfter(ttl); !Fits(ttl, k) {
			t.Fatalf("TTL %v does not fit its own kill-after, %v", ttl, k)
		}
	}
	if ttl := 15 * time.Second; !RidesOutTakeover(ttl, DefaultKillAfter(ttl), 3*time.Second) {
		t.Error("the defaults do not ride out a take-over")
	}
	if RidesOutTakeover(12*time.Second, 5*time.Second, 3*time.Second) {
		t.Error("12 s ride out a take-over: 2.2 + 3 + 2 + 5 + 0.25 s")
	}
}

func TestWindow(t *testing.T) {
	const s = time.Second
	w := windowOf(100*s, 5*s, s)
	if want := (window{Term: 94 * s, Kill: 99 * s}); w != want {
		t.Errorf("window %v, want %v", w, want)
	}
	for _, test := range []struct {
		now  time.Duration
		want window
	}{
		{10 * s, window{Term: 10 * s, Kill: 15 * s}},
		{96 * s, window{Term: 94 * s, Kill: 99 * s}},
		{200 * s, window{Term: 94 * s, Kill: 99 * s}},
	} {
		if got := w.ending(test.now, 5*s); got != test.want {
			t.Errorf("asked to end at %v: %v, want %v", test.now, got, test.want)
		}
	}
}
