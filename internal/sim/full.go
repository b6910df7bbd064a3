package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// refusalMax is how long an acquire may go without an answer on a full store, from
	// when its server knows.
	refusalMax = 1500 * time.Millisecond
	// knownAfter is for what was on its way when the server learnt it.
	knownAfter = 300 * time.Millisecond
)

// drawFull makes a few worlds in which the store is full for longer than sessions live
// and no other fault occurs. It checks that what a full store must keep going is kept.
func drawFull(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeFull))
	if r.IntN(14) > 0 || p.Wild || p.rollsBack() || p.Modes != nil && p.Modes.Row {
		return
	}
	p.Full, p.Hasty, p.FaultRates, p.Faults = true, false, FaultRates{}, nil
	for i := range p.Clients {
		// Another TTL is a record of the session.
		p.Clients[i].Restless = false
	}
	for at := between(r, 2*time.Second, 5*time.Second); at < p.FaultsEnd-2*time.Second; {
		d := min(between(r, 2*time.Second, 12*time.Second), p.FaultsEnd-at)
		p.Faults = append(p.Faults, Fault{Kind: StoreFull, At: at, For: d})
		at += d + between(r, 2*time.Second, 8*time.Second)
	}
}

// fill has the store refuse every write, or take them again.
func (d *disk) fill(full bool) {
	w := d.world
	if d.full && !full {
		w.referee.refusedInTime()
	}
	d.full = full
	d.SetFull(full)
}

// wasFull reports whether the server knew of a batch that the store refused at some
// time since.
func (s *server) wasFull(since time.Duration) bool { return s.fullSince != 0 || s.fullUntil >= since }

// spares: on a full store, with nothing else wrong, nobody loses a session of which
// nothing has to be written.
func (r *referee) spares(c *client) {
	w := r.world
	x := r.ledger.sessions[c.session]
	if w.plan.Full && w.disk.full && c.session != (locktable.ID{}) && x != nil && !x.over && !x.silent {
		w.fail("full", "%s loses its session, of which nothing had to be written, for want of room in the store", c.name)
	}
}

// refusedInTime: on a full store, with nothing else wrong, acquires are refused and do not
// hang.
func (r *referee) refusedInTime() {
	w := r.world
	if !w.plan.Full {
		return
	}
	for _, c := range w.clients {
		for _, q := range c.requests {
			if c.stream == nil || q.lease != nil || q.sent == 0 || c.dialledAt > q.sent || q.ticket() != (locktable.Place{}) {
				continue
			}
			s := c.stream.server
			if s.fullSince != 0 && q.sent > s.fullSince+knownAfter && w.now > q.sent+refusalMax {
				w.fail("full", "%s asked %s for %s at %v, on a store that is full since %v, and is told nothing", c.name, s.name, q.name(), q.sent, s.fullSince)
			}
		}
	}
}
