//go:build unix

package supervise

import (
	"testing"
	"time"
)

func TestGapBetweenLooksIsStop(t *testing.T) {
	s := newStops(6*time.Second, time.Hour)
	at := func(since time.Duration, length, ago time.Duration) {
		t.Helper()
		if l, a := s.look(time.Hour + since); l != length || a != ago {
			t.Errorf("after %v: a stop of %v, %v ago; want %v, %v", since, l, a, length, ago)
		}
	}
	at(250*time.Millisecond, 0, 0)
	at(1240*time.Millisecond, 0, 0) // less than a renewal's interval
	at(5*time.Second, 3760*time.Millisecond, 0)
	at(5900*time.Millisecond, 3760*time.Millisecond, 900*time.Millisecond)
	at(6900*time.Millisecond, time.Second, 0)
	var none *Stops
	if l, a := none.Last(); l != 0 || a != 0 {
		t.Errorf("no watch has seen a stop of %v, %v ago", l, a)
	}
	none.Stop()
}

// Whoever asks first after a stop is told of it, before the goroutine that looks has run.
func TestFirstToAskIsToldOfStop(t *testing.T) {
	s := newStops(time.Millisecond, 1)
	if length, ago := s.Last(); length == 0 || ago != 0 {
		t.Errorf("a stop of %v, %v ago", length, ago)
	}
}
