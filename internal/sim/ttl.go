package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/session"
	"github.com/pawlproject/pawl/internal/trust"
)

// drawTTLs makes some clients restless: they ask for another TTL now and then.
// It draws from a stream of its own. What is about the dead has no use for them.
func drawTTLs(p *Plan) {
	if p.Modes != nil && p.Modes.Row {
		return
	}
	r := rand.New(rand.NewPCG(p.Seed, purposeTTL))
	for _, all := range [][]ClientPlan{p.Clients, p.Unary} {
		for i := range all {
			all[i].Restless = r.IntN(3) == 0
		}
	}
}

// moods is what a restless client asks for, and when.
type moods struct {
	rng *rand.Rand
	// want is what it asks for, given what it was given last.
	want, given time.Duration
}

func newMoods(w *World, p *ClientPlan, purpose uint64) moods {
	return moods{rng: w.random(purpose + uint64(p.ID)), want: p.TTL, given: p.TTL}
}

// other draws another TTL: much longer, or much shorter.
func (m *moods) other() time.Duration {
	return pick(m.rng, between(m.rng, time.Second, 2*time.Second), between(m.rng, 2*time.Second, 9*time.Second)).Round(time.Millisecond)
}

// restless has a client change its mind from time to time.
func (c *client) restless() {
	m := &c.moods
	if !c.plan.Restless {
		return
	}
	c.world.after(&c.process, between(m.rng, 200*time.Millisecond, 6*time.Second), func() {
		ttl := m.other()
		c.world.note(c.name, "wants a TTL of %v, after %v", ttl, m.want)
		m.want = ttl
		c.ask(func(x *session.Machine) { x.SetTTL(nil, ttl) })
		c.restless()
	})
}

// ttl is what a client renews by: a lower TTL from the asking on, a higher one
// from the answer on.
func (m *moods) ttl() time.Duration { return min(m.want, m.given) }

// wantedTTL is what a renewal by hand asks for, mostly nothing.
func (c *unaryClient) wantedTTL() time.Duration {
	if !c.plan.Restless || c.moods.rng.IntN(3) > 0 {
		return 0
	}
	ttl := c.moods.other()
	c.moods.want = ttl
	c.world.referee.promises.asked(c.lease.session, ttl)
	c.world.note(c.name, "wants a TTL of %v", ttl)
	return ttl
}

// promises holds what servers say that renewals are good for against the log: at
// no moment it has less than the longest promise that is running (I5).
type promises struct {
	referee *referee
	given   map[locktable.ID][]promise
	// least is the lowest TTL that a session ever asked for, if any.
	least map[locktable.ID]time.Duration
}

// promise: for ttl from its sending on, until the last moment at which its holder
// may believe in it.
type promise struct {
	ttl, until time.Duration
	by         *servedTenure
}

func newPromises(r *referee) promises {
	return promises{referee: r, given: map[locktable.ID][]promise{}, least: map[locktable.ID]time.Duration{}}
}

// asked takes in that a session asks for a TTL.
func (p *promises) asked(id locktable.ID, ttl time.Duration) {
	if least, any := p.least[id]; !any || ttl < least {
		p.least[id] = ttl
	}
}

// heardFor is what a message is good for at least, in a session that had ttl.
func (p *promises) heardFor(id locktable.ID, ttl time.Duration) time.Duration {
	if least, any := p.least[id]; any {
		return min(ttl, least)
	}
	return ttl
}

// answered takes in the answer to a renewal: it was sent at sent, and is good for ttl.
func (p *promises) answered(s *server, id locktable.ID, sent, ttl time.Duration) {
	w := p.referee.world
	x := p.referee.ledger.sessions[id]
	if sent == 0 {
		return
	}
	// The holder's clock may be as slow as is allowed for.
	span := trust.Span(ttl, trust.DriftPPM)
	until := sent + span + span*trust.DriftPPM/1_000_000
	switch {
	case until <= w.now:
		return
	case s.served.misled:
		p.referee.voids(id, until)
		return
	case x == nil || x.over:
		return
	}
	if x.ttl < ttl && !x.silent {
		w.fail("I5", "%s says that a renewal of %v is good for %v, and the log has a TTL of %v", s.name, sent, ttl, x.ttl)
	}
	running := p.given[id][:0]
	for _, g := range p.given[id] {
		if g.until > w.now {
			running = append(running, g)
		}
	}
	p.given[id] = append(running, promise{ttl, until, s.served})
}

// logs takes in that the log has another TTL.
func (p *promises) logs(id locktable.ID, x *ledgerSession, ttl time.Duration) {
	w := p.referee.world
	p.referee.tally.TTLs++
	x.ttl = ttl
	for _, g := range p.given[id] {
		if left := g.until - w.now; left > ttl && !p.referee.rebuilding {
			w.fail("I5", "the log has a TTL of %v from now on, and %v were promised, of which %v are left", ttl, g.ttl, left)
		}
	}
}
