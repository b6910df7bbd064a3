package sim

import (
	"errors"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/session"
)

// ride is a ride of a lease, as its holder carries it out: the holder looks at its guard's
// mark at once, and again after every interval.
type ride struct {
	since    time.Duration
	interval time.Duration
	// overtaken is when the holder saw that its guard would refuse it; 0: it has not.
	overtaken time.Duration
}

// markPatience is the least time that a guard has to show its mark.
const markPatience = 2 * time.Second

// hears notes when the renewal was sent that a message answers.
func (c *client) hears(d delivery) {
	if d.message == nil || d.stream != c.stream {
		return
	}
	at := clock.Reading{}
	switch n := d.message.Renewal; {
	case d.message.Welcome != nil:
		at = d.stream.dialled
	case n != 0:
		at = c.sentAt[n%uint64(len(c.sentAt))]
	}
	if at.Longer(c.acknowledged) > 0 {
		c.acknowledged = at
	}
}

func (c *client) rideLeft(l *lease) time.Duration {
	if l.ended || l.ride == 0 || l.session != c.session {
		return 0
	}
	return c.deadline.RideLeft(c.clock.read(c.world.now), l.ride)
}

// beginRide: the deadline has passed, and the lease is not over.
func (c *client) beginRide(l *lease, interval time.Duration) {
	w := c.world
	w.note(c.name, "rides with token %d of %s", l.token, l.name)
	w.referee.tally.Rides++
	l.riding = &ride{since: w.now, interval: interval}
	c.look(l, l.riding)
}

// endRide: a server has answered, and the lease goes on as it was.
func (c *client) endRide(l *lease) {
	c.world.note(c.name, "rides no more with token %d of %s, which it has", l.token, l.name)
	c.world.referee.returned(c, l)
	l.riding = nil
}

// look reads the guard's mark once, and has it read again later. The guard may fail, or
// give no answer: that says nothing.
func (c *client) look(l *lease, on *ride) {
	w, faults := c.world, c.world.plan.Rides
	if l.riding != on || l.ended {
		return
	}
	again := func(after time.Duration) { w.after(&c.process, after, func() { c.look(l, on) }) }
	if !w.faultsOver && chance(c.rng, faults.Unread) {
		w.note(c.name, "does not learn the mark of %s", l.name)
		again(on.interval + pick(c.rng, 0, max(on.interval, markPatience)))
		return
	}
	there, back := between(c.rng, 50*time.Microsecond, 3*time.Millisecond), between(c.rng, 50*time.Microsecond, 3*time.Millisecond)
	if !w.faultsOver && chance(c.rng, faults.Late) {
		back = between(c.rng, 10*time.Millisecond, 3*time.Second)
	}
	x, f, life := w.resource(l.line()), l.fence(), c.life
	w.at(w.now+there, func() {
		seen := x.state
		w.push(event{at: w.now + back, who: &c.process, life: life, do: func() {
			if l.riding != on || l.ended {
				return
			}
			if back > max(on.interval, markPatience) {
				c.looked(l, on, seen, guard.ErrUnknown)
			} else {
				c.looked(l, on, seen, shows(seen, f))
			}
			again(on.interval)
		}})
	})
}

// look has a caller without a stream read its guard's mark while it rides.
func (c *unaryClient) look(l *lease) {
	w := c.world
	w.after(&c.process, c.moods.ttl()/6, func() {
		if l != c.lease || l.ended || l.releasing {
			return
		}
		c.look(l)
		if c.trusted(l) > 0 || !w.faultsOver && chance(c.rng, w.plan.Rides.Unread) {
			return
		}
		w.referee.tally.Looks++
		if shows(w.resource(l.line()).state, l.fence()) != nil || !l.trusted() {
			w.note(c.name, "rides no more with token %d of %s", l.token, l.name)
			c.work.stop()
			c.think()
		}
	})
}

// shows is what a guard in this state would say to a fence.
func shows(seen guard.State, f guard.Fence) error {
	_, verdict := guard.Decide(guard.Monotonic, seen, f.Mark())
	return verdict.Err(f.Resource, seen, f.Mark())
}

// looked takes in what the guard has shown.
func (c *client) looked(l *lease, on *ride, seen guard.State, err error) {
	c.world.referee.sees(l, on, seen, err)
	c.tells(l, err)
}

// tells tells the machine of an error of a lease's guard, when it shows that the lease is
// over.
func (c *client) tells(l *lease, err error) {
	if !errors.Is(err, guard.ErrStale) && !errors.Is(err, guard.ErrForeign) {
		return
	}
	c.world.note(c.name, "is overtaken with token %d of %s", l.token, l.name)
	c.ask(func(m *session.Machine) { m.Overtaken(l.of, err) })
}
