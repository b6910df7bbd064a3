package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// drawHangUps makes some callers without a stream cut the connections on which they
// wait, as a proxy's time-out does. It makes some quiet requests hang up instead of
// cancelling. In some worlds there are more such callers, which wait behind each other.
func drawHangUps(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeHangUps))
	if p.Full {
		return
	}
	many := r.IntN(6) == 0
	for many && len(p.Unary) < 6 {
		p.Unary = append(p.Unary, drawClient(r, len(p.Unary)))
	}
	for i := range p.Unary {
		p.Unary[i].HangsUp = many || r.IntN(2) == 0
	}
	for i := range p.Quiet {
		p.Quiet[i].HangUp = p.Quiet[i].GiveUp > 0 && r.IntN(3) == 0
	}
}

// patience is how long the caller leaves its connection open, and whether it cuts it
// before it is answered for sure.
func (c *unaryClient) patience(want *wanted) (d time.Duration, cuts bool) {
	if !c.plan.HangsUp || want.wait == 0 || c.world.faultsOver || c.whims.IntN(3) == 0 {
		return want.wait + 2*time.Second, false
	}
	return between(c.whims, time.Millisecond, min(want.wait, pick(c.whims, 300*time.Millisecond, 3*time.Second))), true
}

// away is how long a caller that has hung up takes to ask again: at once, within the
// time for which its place is kept, or after that.
func (c *unaryClient) away() time.Duration {
	return pick(c.whims, between(c.whims, 0, 100*time.Millisecond), between(c.whims, 0, bounds.PlaceKept),
		between(c.whims, 0, bounds.PlaceKept), bounds.PlaceKept+between(c.whims, 0, 3*time.Second))
}

// keptFor is how long a place is kept for sure, whatever the server's clock does.
const keptFor = bounds.PlaceKept - 100*time.Millisecond

// hangsUp notes that a server has decided these commands: a caller that has hung up by
// now is granted nothing, until it asks again under another lease's id.
func (r *referee) hangsUp(urgent []locktable.Command) {
	for _, c := range urgent {
		h, ok := c.(locktable.DetachWaiter)
		if !ok {
			continue
		}
		switch to := h.Waiter.(type) {
		case *call:
			to.hungUp = r.world.now
			r.hungUp[to.command.(locktable.Acquire).Lease] = r.world.now
		case *quiet:
			r.hungUp[to.lease] = r.world.now
		}
	}
}

// grantedToNobody holds the grant of a lease with an id of its own against hang-ups that
// were decided before.
func (r *referee) grantedToNobody(x *entry, lease locktable.ID) {
	if at, gone := r.hungUp[lease]; gone && !r.rebuilding && r.ledger.at > at {
		r.world.fail("I8", "token %d of %s is granted at %v, and the connection that waited for it has ended, as its server knew at %v",
			x.token, x.name, r.ledger.at, at)
	}
}

// asked takes in that a server has decided these acquires.
func (q *queue) asked(acquires []locktable.Command) {
	for _, c := range acquires {
		if a, ok := c.(locktable.Acquire); ok && a.RequestKey != (locktable.ID{}) {
			q.askers[a.RequestKey] = a.Ref
		}
	}
}

// repeats notes that a request without a stream waits at a place. If the same request
// waited before, on another connection, it is the same place, unless that was given up.
func (q *queue) repeats(to *call, place locktable.Place) {
	w := q.referee.world
	key := to.command.(locktable.Acquire).RequestKey
	if key == (locktable.ID{}) {
		return
	}
	for i, x := range q.all {
		before, ok := x.to.(*call)
		if !ok || before == to || before.command.(locktable.Acquire).RequestKey != key {
			continue
		}
		gone := before.hungUp != 0
		switch {
		case x.place == place && gone:
			q.referee.tally.TakenUp++
		case x.place == place || before.overdue:
		case gone && w.now-before.hungUp >= keptFor:
			q.referee.tally.Lapsed++
		default:
			w.fail("order", "%s asks again for %v and waits at %v; its place was %v, and it is kept since %v",
				to.client.name, to.command.(locktable.Acquire).Names, place, x.place, before.hungUp)
		}
		q.all = append(q.all[:i:i], q.all[i+1:]...)
		return
	}
}
