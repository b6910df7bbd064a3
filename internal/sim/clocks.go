package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// Drift is how a clock runs wrong.
type Drift struct {
	// PPM bounds the error of the rate, in millionths.
	PPM int
	// Shape of the error over time.
	Shape Shape
	// Step is how long a rate lasts, for shapes that change.
	Step time.Duration
	// Slow: the error is never ahead.
	Slow bool
	// Wall is how far the wall clock is off.
	Wall time.Duration
}

// Shape of a drift.
type Shape uint8

// The shapes: always the same, at random in steps, from one extreme to the
// other and back.
const (
	Constant Shape = iota
	Steps
	Swing
	shapes
)

// clockOf is a machine's clock: two counts that run wrong, each in its own way,
// and a wall clock.
type clockOf struct {
	drift Drift
	rng   *rand.Rand
	last  time.Duration
	// until is when the present rates end.
	until     time.Duration
	boot, raw count
	// suspended: until then raw stands still.
	suspended time.Duration
	high      bool
	// stepped is how far the wall clock was set since.
	stepped time.Duration
}

// count advances by rate; rest keeps what is less than a nanosecond.
type count struct {
	at  time.Duration
	ppm int
}

// newClock is the clock of the i-th process. It draws from a stream of its own,
// so that reading it changes nothing else.
func newClock(w *World, i int) *clockOf {
	c := &clockOf{drift: w.plan.drift(i), rng: w.random(purposeClock + uint64(i))}
	c.boot.at, c.raw.at = between(c.rng, 0, time.Hour), between(c.rng, 0, time.Hour)
	c.change()
	return c
}

// change draws the next rates.
func (c *clockOf) change() {
	p := c.drift.PPM
	draw := func() int {
		switch {
		case p == 0:
			return 0
		case c.drift.Slow:
			return c.rng.IntN(p/2) - p
		}
		return c.rng.IntN(2*p+1) - p
	}
	switch c.drift.Shape {
	case Constant:
		c.until = 1 << 62
		c.boot.ppm, c.raw.ppm = draw(), draw()
		return
	case Steps:
		c.boot.ppm, c.raw.ppm = draw(), draw()
	case Swing:
		c.high = !c.high
		if c.high {
			c.boot.ppm, c.raw.ppm = p, p
		} else {
			c.boot.ppm, c.raw.ppm = -p, -p
		}
	}
	c.until += max(c.drift.Step, 100*time.Millisecond)
}

// read is a look at the clock at a true time. Time never goes back.
func (c *clockOf) read(now time.Duration) clock.Reading {
	for c.last < now {
		to := min(now, c.until)
		d := to - c.last
		c.boot.add(d)
		c.raw.add(d - min(max(c.suspended-c.last, 0), d))
		if c.last = to; to == c.until {
			c.change()
		}
	}
	return clock.Reading{Boot: c.boot.at, Raw: c.raw.at}
}

func (n *count) add(d time.Duration) { n.at += d + d*time.Duration(n.ppm)/1_000_000 }

// suspend stops the raw count for a while; boot time goes on.
func (c *clockOf) suspend(now, d time.Duration) {
	c.read(now)
	c.suspended = now + d
}

// epoch is when every world begins.
var epoch = time.Date(2027, time.March, 1, 12, 0, 0, 0, time.UTC)

func (c *clockOf) wall(now time.Duration) time.Time { return epoch.Add(now + c.drift.Wall + c.stepped) }

// wildClocks makes a world in which clients' clocks run slower, and faster, than
// is promised for, and clients stop for as long as a lease lives.
func (p *Plan) wildClocks(r *rand.Rand) {
	p.Wild = true
	for i := p.Servers; i < len(p.Drifts); i++ {
		p.Drifts[i].PPM, p.Drifts[i].Slow = pick(r, 100_000, 700_000, 900_000), r.IntN(8) > 0
	}
	for i := range p.Clients {
		c := &p.Clients[i]
		c.TTL, c.Eager = between(r, time.Second, 3*time.Second), true
		c.Writes += 2
	}
	p.Faults = nil
	for range 4 + r.IntN(5) {
		p.Faults = append(p.Faults, Fault{
			Kind: PauseClient, Target: r.IntN(len(p.Clients)), At: between(r, 2*time.Second, p.FaultsEnd), For: between(r, time.Second, 8*time.Second),
		})
	}
}
