package sim

import (
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// times holds what the servers make of time against the true one: nobody ends
// before its time in the hands of a server that could have heard it, the dead
// end although servers take over from each other, and a lock-delay lasts.
type times struct {
	referee *referee
	servers map[uint64]*server
	heard   map[locktable.ID]heard
	sealed  map[batch]time.Duration
	served  time.Duration
	dead    []*dead
}

// heard is the last message of a session in this tenure.
type heard struct {
	server     *server
	generation uint64
	at         time.Duration
}

// dead is a session that nobody speaks for; counted is how much of its TTL must
// have passed by now.
type dead struct {
	session locktable.ID
	since   time.Duration
	ttl     time.Duration
	counted time.Duration
}

// stall is a span in which a process stood still.
type stall struct{ from, to time.Duration }

// closing is a lock-delay that began when its batch was closed.
type closing struct{ since, until time.Duration }

// lagMax is how much later than decided a batch may be closed, because too many
// are in flight.
const lagMax = 1500 * time.Millisecond

func newTimes(r *referee) times {
	return times{referee: r, servers: map[uint64]*server{}, heard: map[locktable.ID]heard{}, sealed: map[batch]time.Duration{}}
}

// batch is the number of one in its tenure.
type batch struct{ epoch, number uint64 }

// seals takes in that a server closes a batch.
func (t *times) seals(s *server, number uint64) {
	t.sealed[batch{s.tenure.Epoch(), number}] = t.referee.world.now
}

// sealedAt is when a batch was closed.
func (t *times) sealedAt(epoch, number uint64) time.Duration {
	if at, ok := t.sealed[batch{epoch, number}]; ok {
		return at
	}
	return t.referee.world.now
}

// serves takes in that a server begins to serve its tenure.
func (t *times) serves(s *server) {
	t.servers[s.tenure.Epoch()] = s
	clear(t.heard)
	t.served = t.referee.world.now
}

// hears takes in a message of a stream.
func (t *times) hears(s *server, x *stream) {
	if last := t.heard[x.session]; last.server != s || x.generation >= last.generation {
		t.heard[x.session] = heard{s, x.generation, t.referee.world.now}
	}
}

// usable is the most that a server may count of a span.
func (s *server) usable(from, to time.Duration) time.Duration {
	d := to - from
	for _, x := range s.stalls {
		if over := min(x.to, to) - max(x.from, from); over > cell.ShareMax {
			d -= over - cell.ShareMax
		}
	}
	return d
}

// expires holds the expiry of a session against the time that its server can
// have counted.
func (t *times) expires(id locktable.ID, x *ledgerSession) {
	r := t.referee
	w := r.world
	s := t.servers[r.tenure.Epoch]
	if s == nil || r.rolled {
		return
	}
	since, need := t.served, x.basis
	if last, ok := t.heard[id]; ok && last.server == s {
		// What was decided since the batch before was closed may be older than what
		// was heard since.
		if last.at >= r.ledger.before {
			return
		}
		since, need = last.at, x.ttl
	}
	if got := s.usable(since, w.now); got+got/500 < need {
		w.fail("I5", "%s ends a session after %v of usable time, and %v was left of it", s.name, got, need)
	}
}

// begin takes in that a tenure begins, with what is left of each session.
func (l *ledger) begin() {
	for _, s := range l.sessions {
		if s.basis = s.ttl; s.silent {
			s.basis = s.left
		}
	}
}

// dies takes in that nobody speaks for a client's session any more.
func (r *referee) dies(c *client) {
	m := r.world.plan.Modes
	if m != nil && m.Row && c.session != (locktable.ID{}) {
		r.times.dead = append(r.times.dead, &dead{session: c.session, since: r.world.now + 100*time.Millisecond, ttl: c.plan.TTL})
	}
}

// stops takes in that a server serves no longer: at least half of its tenure
// counts against the dead.
func (t *times) stops(s *server) {
	w := t.referee.world
	if !s.serving || t.servers[s.tenure.Epoch()] != s {
		return
	}
	const slack = 500 * time.Millisecond
	for _, x := range t.dead {
		span := w.now - t.served
		if t.served < x.since || span < locktable.TenureGrace+slack {
			continue
		}
		x.counted += (span - slack) / 2
		if l := t.referee.ledger.sessions[x.session]; l != nil && !l.over && x.counted > x.ttl+slack {
			w.fail("I8", "a session with a TTL of %v is dead since %v, and take-overs keep it alive", x.ttl, x.since)
		}
	}
}

// shut begins a lock-delay.
func (l *ledger) shut(name string, delay time.Duration) {
	if c := l.closed[name]; c.until < l.sealed+delay {
		l.closed[name] = closing{l.sealed, l.sealed + delay}
	}
}

// open holds a grant against the lock-delays of its names.
func (l *ledger) open(x *entry) {
	for _, g := range x.grants {
		c := l.closed[g.Name]
		if x.mode == locktable.Shared || c.until == 0 {
			continue
		}
		l.reopened(g.Name)
		delete(l.closed, g.Name)
	}
}

// reopened: the log says that a name is open again.
func (l *ledger) reopened(name string) {
	c, ok := l.closed[name]
	if delay := c.until - c.since; ok && !l.referee.rolled && l.now+lagMax+delay/500 < c.until {
		l.referee.world.fail("I2", "%s is opened %v after the end of a lease with a lock-delay of %v", name, l.now-c.since, delay)
	}
	delete(l.closed, name)
}
