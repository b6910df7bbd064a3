package clock

import "time"

// Reading is one look at a clock. The two counts come from the same moment as
// nearly as the system allows.
type Reading struct {
	// Boot counts while the machine is suspended, Raw is not slewed.
	Boot, Raw time.Duration
}

// Longer is the time from earlier to r as a holder must count it: the larger of
// the two clocks' differences, never negative.
func (r Reading) Longer(earlier Reading) time.Duration {
	return max(r.Boot-earlier.Boot, r.Raw-earlier.Raw, 0)
}

// Shorter is the time from earlier to r as a server must count it: the smaller
// of the two clocks' differences, never negative.
func (r Reading) Shorter(earlier Reading) time.Duration {
	return max(min(r.Boot-earlier.Boot, r.Raw-earlier.Raw), 0)
}

// Add moves both counts by d.
func (r Reading) Add(d time.Duration) Reading {
	return Reading{Boot: r.Boot + d, Raw: r.Raw + d}
}

// Timer fires once on C after the time it was armed with.
type Timer interface {
	// C delivers at most one value for each Reset. A value may come from the
	// arming before: its receiver reads the clock.
	C() <-chan struct{}
	// Reset arms the timer anew, d from now; a value not yet taken is dropped.
	// A d of zero or less fires at once.
	Reset(d time.Duration)
	// Stop disarms the timer and frees what it holds. Not to be used again.
	Stop()
}

// Clock reads time and arms timers. Safe for use by several goroutines.
type Clock interface {
	Now() Reading
	// Wall is the wall clock, for labels and the token counter alone.
	Wall() time.Time
	// NewTimer returns a timer that is not armed. It may not count suspend: for
	// pauses and retries.
	NewTimer() Timer
	// NewAlarm returns a timer that is not armed and counts suspend where the
	// system can: for a holder's deadline. It costs a descriptor.
	NewAlarm() Timer
}

// Bubble is a clock on Go's own time and timers. In a testing/synctest bubble
// it follows the bubble; elsewhere it does not count suspend.
func Bubble() Clock { return goClock{start: time.Now()} }

type goClock struct{ start time.Time }

func (c goClock) Now() Reading {
	d := time.Since(c.start)
	return Reading{Boot: d, Raw: d}
}

func (goClock) Wall() time.Time { return time.Now() }

func (goClock) NewTimer() Timer { return newGoTimer() }

func (goClock) NewAlarm() Timer { return newGoTimer() }

type goTimer struct {
	t *time.Timer
	c chan struct{}
}

// newGoTimer bridges time.Timer to the shape of Timer. The bridge never blocks:
// a value that nobody took is dropped by the next Reset.
func newGoTimer() *goTimer {
	g := &goTimer{c: make(chan struct{}, 1)}
	g.t = time.AfterFunc(time.Hour, g.fire)
	g.t.Stop()
	return g
}

func (g *goTimer) fire() {
	select {
	case g.c <- struct{}{}:
	default:
	}
}

func (g *goTimer) C() <-chan struct{} { return g.c }

func (g *goTimer) Reset(d time.Duration) {
	g.t.Stop()
	select {
	case <-g.c:
	default:
	}
	g.t.Reset(max(d, 0))
}

func (g *goTimer) Stop() { g.t.Stop() }
