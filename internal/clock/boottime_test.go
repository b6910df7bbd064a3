package clock

import (
	"sync"
	"testing"
	"time"
)

func TestBoottimeIsMonotonic(t *testing.T) {
	last := Boottime()
	for range 1000 {
		now := Boottime()
		if now < last {
			t.Fatalf("boot time went back from %v to %v", last, now)
		}
		last = now
	}
}

func newBootTimer(t *testing.T) *BootTimer {
	t.Helper()
	b, err := NewBootTimer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

func TestBootTimerFiresAtItsInstantAndNotBefore(t *testing.T) {
	b := newBootTimer(t)
	at := Boottime() + 20*time.Millisecond
	b.Arm(at)
	<-b.C()
	if now := Boottime(); now < at {
		t.Fatalf("fired %v early", at-now)
	}
}

func TestBootTimerFiresAtOnceForAPassedInstant(t *testing.T) {
	b := newBootTimer(t)
	for _, at := range []time.Duration{-time.Hour, 0, 1, Boottime() - 1} {
		b.Arm(at)
		<-b.C()
	}
	b.Reset(-1)
	<-b.C()
}

// A timer armed anew delivers nothing of its earlier instants: each round's
// first instant is due while the second is set.
func TestResetBootTimerDropsEarlierInstant(t *testing.T) {
	b := newBootTimer(t)
	for range 500 {
		b.Arm(1)
		at := Boottime() + time.Millisecond
		b.Arm(at)
		<-b.C()
		if now := Boottime(); now < at {
			t.Fatalf("fired %v early", at-now)
		}
		select {
		case <-b.C():
			t.Fatal("fired twice for one Arm")
		default:
		}
	}
}

func TestStopFreesBootTimers(t *testing.T) {
	var fired sync.WaitGroup
	for range 200 {
		b := newBootTimer(t)
		b.Arm(Boottime() + 5*time.Millisecond)
		fired.Go(func() { <-b.C() })
	}
	fired.Wait()
	b := newBootTimer(t)
	b.Arm(Boottime() + time.Hour)
}
