package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/session"
	"github.com/pawlproject/pawl/internal/trust"
)

// # What is promised of leases that ride
//
// I5 does not hold them to their deadline. Instead, in this order:
//
//   - A name is not granted to an acquire that does not claim while a lease of it may ride,
//     by its holder's own clock, nor before its server has counted the whole ride-through
//     since the lease ended unreleased (I2).
//   - What the holder wrote before it was overtaken is not lost: each successor reads it
//     before it writes, whether it claims or was let in without a claim (I6).
//   - It ends by itself, counted from the sending of the last acknowledged renewal. A guard
//     that refuses it, or that is seen to be ahead of it, ends it, and so does a server that
//     does not have it any more. Nothing else does (ride).
//   - It goes on under its token when a server is back, and soon (ride). Acquires that claim
//     do not wait for it, and others wait no longer than the ride-through (I10).
//
// A store that is set back to before the grant does not know that the name is to be closed.
// Then an acquire that does not claim is let in, and may write over what the holder writes.
// One that claims does not: the guard sees to that.

// releaseMost bounds the time in which a release is answered that is asked for during a
// ride: 2 s, and a sixth of the longest TTL where a server comes back meanwhile.
const releaseMost = 2*time.Second + 1600*time.Millisecond

// rideSlack is for what a rider and its server have to do, and for batches that were on
// their way in the outage and that the store takes seconds to land.
const rideSlack = 4 * time.Second

// rideLimit is how long a lease may ride after the sending of the last acknowledged
// renewal, by its holder's clock.
func rideLimit(l *lease) time.Duration {
	const million = 1_000_000
	return time.Duration(float64(l.ride)*(million-trust.DriftPPM)/(million+trust.DriftPPM)) - trust.Margin
}

// turned holds the rides of a client against what should have ended them, when its loop
// has turned.
func (r *referee) turned(c *client) {
	w := r.world
	if w.plan.Rides == nil {
		return
	}
	for _, q := range c.requests {
		if q.riding && w.now-q.asked > releaseMost && !c.stalledSince(q.asked) {
			w.fail("ride", "%s asked at %v to release token %d, while it rode, and is told nothing", c.name, q.asked, q.lease.token)
		}
	}
	for _, l := range c.leases {
		on := l.riding
		if on == nil || l.ended || l.releasing {
			continue
		}
		ridden := c.clock.read(w.now).Longer(c.acknowledged)
		switch {
		case ridden > rideLimit(l)+time.Millisecond:
			w.fail("ride", "%s rides with token %d of %s %v after the sending of the last acknowledged renewal, and may for %v",
				c.name, l.token, l.name, ridden, l.ride)
		case on.overtaken != 0:
			w.fail("ride", "%s rides on with token %d of %s, and saw at %v that its guard refuses it", c.name, l.token, l.name, on.overtaken)
		case r.unseen(c, l):
			w.fail("ride", "%s rides on with token %d of %s, and its guard refuses it since %v", c.name, l.token, l.name, w.resource(l.line()).raised)
		case w.plan.Rides.Clean && r.reachable() < w.now-c.soon() && on.since < w.now-c.soon():
			w.fail("ride", "%s rides with token %d of %s since %v, and a server is back since %v", c.name, l.token, l.name, on.since, r.reachable())
		}
	}
}

// soon bounds the time in which a rider finds a server that is there: it tries one in each
// quarter of a TTL, and may have to try them all.
func (c *client) soon() time.Duration {
	return c.plan.TTL/4*time.Duration(len(c.world.servers)) + rideSlack
}

// reachable is the time since which clients can have answers, in a clean world. It lies an
// hour ahead when they cannot.
func (r *referee) reachable() time.Duration {
	a := r.world.active()
	if a == nil || r.world.disk.down {
		return r.world.now + time.Hour
	}
	return max(a.served.served, r.world.disk.upSince)
}

// unseen reports whether a rider whose guard can be read has not seen for two intervals
// that it is refused.
func (r *referee) unseen(c *client, l *lease) bool {
	w, x, on := r.world, r.world.resource(l.line()), l.riding
	faults := w.plan.Rides
	if faults.Unread > 0 || faults.Late > 0 || shows(x.state, l.fence()) == nil {
		return false
	}
	since := max(x.raised, on.since)
	return !c.stalledSince(since) && w.now-since > 2*on.interval+100*time.Millisecond
}

// stalledSince reports whether a process stood still at some time since.
func (p *process) stalledSince(since time.Duration) bool {
	return slices.ContainsFunc(p.stalls, func(s stall) bool { return s.to > since })
}

// sees takes in what a look at a guard has shown to a holder.
func (r *referee) sees(l *lease, on *ride, seen guard.State, err error) {
	r.tally.Looks++
	if !errors.Is(err, guard.ErrUnknown) && shows(seen, l.fence()) != nil {
		on.overtaken = r.world.now
	}
}

// rideEnds holds the end of a lease that may ride against its cause.
func (r *referee) rideEnds(c *client, l *lease, why *session.Cause) {
	w := r.world
	if w.plan.Rides == nil || l.releasing || l.ended {
		return
	}
	if why.Kind == session.Overtaken {
		if r.tally.Overtaken++; shows(w.resource(l.line()).state, l.fence()) == nil {
			w.fail("ride", "%s ends token %d of %s as overtaken, and its guard does not refuse it", c.name, l.token, l.name)
		}
	}
	if l.ride == 0 {
		return
	}
	ridden := c.clock.read(w.now).Longer(c.deadline.Acknowledged)
	switch why.Kind {
	case session.DeadlinePassed, session.RideOver:
		if ridden < rideLimit(l)-time.Millisecond {
			w.fail("ride", "%s ends token %d of %s for want of an answer after %v, and it may ride for %v", c.name, l.token, l.name, ridden, l.ride)
		}
	case session.Gone:
		if x := r.ledger.entries[l.token]; x != nil && !x.over && !r.told(c).misled {
			w.fail("ride", "%s is told that token %d of %s is gone, and by the log it is held", c.name, l.token, l.name)
		}
	}
	if ended := why.Kind != session.Released && why.Kind != session.Broken; ended && w.plan.Rides.Clean {
		w.fail("ride", "%s loses token %d of %s, and nothing went wrong but that the store was down", c.name, l.token, l.name)
	}
}

// told is the served tenure that a client has heard last.
func (r *referee) told(c *client) *servedTenure {
	if x := r.from[c.told]; x != nil {
		return x
	}
	return &servedTenure{misled: true}
}

// returned holds the end of a ride at a server that has the lease against the log.
func (r *referee) returned(c *client, l *lease) {
	r.tally.Returns++
	x := r.ledger.entries[l.token]
	if c.stream == nil || x == nil || l.releasing || r.told(c).misled {
		return
	}
	if x.over && x.ended < c.dialledAt {
		r.world.fail("ride", "%s goes on with token %d of %s, which %s does not have", c.name, l.token, l.name, c.stream.server.name)
	}
}

// letIn holds a grant against those who may ride with the name.
func (r *referee) letIn(x *entry) {
	w := r.world
	if x.claims || w.plan.Rides == nil {
		return
	}
	for _, g := range x.grants {
		if left := r.ledger.claimOnly[g.Name]; len(left) > 0 {
			w.fail("I2", "token %d of %s is granted to an acquire that does not claim, and the name is claim-only", x.token, g.Name)
		}
	}
	for _, l := range r.leases {
		if l.token == x.token || l.ended || l.releasing || !x.holdsAgainst(l) || r.ledger.entries[l.token] == nil {
			continue
		}
		switch left := l.holder.rideLeft(l); {
		case left > 0 && w.plan.Wild:
			r.tally.Overruns++
		case left > 0:
			w.fail("I2", "token %d of %s is granted to an acquire that does not claim, and %s may ride with token %d for %v",
				x.token, x.name, l.holder.who().name, l.token, left)
		}
	}
}

// mayOverwrite reports whether a lease that does not claim may write over what another has
// written: since that was sent before this one was granted, or by a holder that did not
// trust its lease any more, or that may not ride and whose lease was broken by force; or
// since the store has lost a grant.
func (r *referee) mayOverwrite(l *lease, other effect) bool {
	x, lost := r.ledger.entries[l.token], r.ledger.entries[other.token]
	switch {
	case x == nil || lost == nil || r.world.plan.Wild:
		return true
	case lost.forced && lost.ride == 0:
		return true
	}
	return !other.trusted || other.sent < x.granted
}

// overdue names what is claim-only for longer than its server may take to count it, when
// nothing holds that up.
func (r *referee) overdue() {
	w, now := r.world, r.current()
	if now == nil || w.active() == nil {
		return
	}
	for _, name := range w.plan.names() {
		var last time.Duration
		for _, c := range r.ledger.claimOnly[name] {
			// A slow store has its server count less.
			last = max(last, max(c.since, now.served, w.plan.FaultsEnd)+c.need+c.need/20+rideSlack)
		}
		if last != 0 && w.now > last {
			w.fail("I10", "%s is claim-only, and that should have been over at %v", name, last)
		}
	}
}

// passedOver reports whether an acquire is kept out, and passed by others, since it does
// not claim and one of its names is claim-only.
func (l *ledger) passedOver(claims bool, names []string) bool {
	return !claims && slices.ContainsFunc(names, func(n string) bool { return len(l.claimOnly[n]) > 0 })
}

// line is the resource that guards the first name of a lease, fence what it is shown.
func (l *lease) line() string { return guardResource(l.grants[0].Name, l.grants[0].Slot) }

func (l *lease) fence() guard.Fence {
	return guard.Fence{Resource: l.line(), Token: l.grants[0].Fence, Cell: cellID}
}
