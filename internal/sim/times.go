package sim

import (
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// times compares what servers do with the true time: no session ends early at a server
// that could have received its renewals, sessions of dead clients end although servers
// take over from each other, and a lock-delay lasts.
type times struct {
	referee *referee
	decided map[store.Sum][]moment
	dead    []*dead
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

// closing is a lock-delay, or the time for which a rider leaves a name claim-only: since
// when its server counts it, and what it has to count from then on. A later tenure counts
// what was logged to be left.
type closing struct{ since, need, left time.Duration }

// moment is when the next so many events of a batch were decided.
type moment struct {
	at     time.Duration
	events int
}

func newTimes(r *referee) times {
	return times{referee: r, decided: map[store.Sum][]moment{}}
}

// decides takes in that a server has decided so many events.
func (t *times) decides(s *server, events int) {
	if events > 0 {
		s.decided = append(s.decided, moment{t.referee.world.now, events})
	}
}

// seals takes in that a server closes a batch with the first of what it has
// decided.
func (t *times) seals(s *server, b step.Batch) {
	h, err := store.HeaderOf(b.Raw)
	if err != nil {
		t.referee.world.fail("I4", "batch %d does not read: %v", b.Number, err)
		return
	}
	var all []moment
	for left := b.Events; left > 0; {
		m := &s.decided[0]
		n := min(m.events, left)
		all = append(all, moment{m.at, n})
		left -= n
		if m.events -= n; m.events == 0 {
			s.decided = s.decided[1:]
		}
	}
	t.decided[h.Sum] = all
}

// when is when the i-th event of a batch was decided; of an opening batch, when it
// became durable.
func (t *times) when(sum store.Sum, i int) time.Duration {
	for _, m := range t.decided[sum] {
		if i -= m.events; i < 0 {
			return m.at
		}
	}
	return t.referee.ledger.now
}

// hears takes in a message of a stream.
func (t *times) hears(s *server, x *stream) {
	if last := s.served.heard[x.session]; x.generation >= last.generation {
		s.served.heard[x.session] = heard{x.generation, t.referee.world.now}
	}
}

// usable is the most that a server may count of a span.
func (s *server) usable(from, to time.Duration) time.Duration {
	d := to - from
	for _, x := range s.stalls {
		if over := min(x.to, to) - max(x.from, from); over > step.ShareMax {
			d -= over - step.ShareMax
		}
	}
	return d
}

// expires holds the expiry of a session against the time that its server can
// have counted.
func (t *times) expires(id locktable.ID, x *ledgerSession) {
	r := t.referee
	w := r.world
	now := r.current()
	if now == nil || r.rebuilding {
		return
	}
	since, need := now.served, x.basis
	if last, ok := now.heard[id]; ok {
		if last.at >= r.ledger.at {
			return
		}
		since, need = last.at, r.promises.heardFor(id, x.ttl)
	}
	if got := now.server.usable(since, r.ledger.at); got+got/500 < need {
		w.fail("I5", "%s ends a session after %v of usable time, and %v was left of it", now.server.name, got, need)
	}
}

// begin takes in that a tenure begins, with what is left of each session.
func (l *ledger) begin() {
	for _, s := range l.sessions {
		if s.basis = s.ttl; s.silent {
			s.basis = s.left
		}
	}
	for _, of := range []map[string][]closing{l.closed, l.claimOnly} {
		for _, all := range of { //tidy:unordered each name for itself
			for i := range all {
				all[i].need = all[i].left
			}
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
	if !s.serving {
		return
	}
	served, until := s.served.served, w.now
	if at, deposed := t.referee.deposed[s.served.tenure]; deposed {
		until = at
	}
	const slack = 500 * time.Millisecond
	for _, x := range t.dead {
		span := until - served
		if served < x.since || span < locktable.TenureGrace+slack {
			continue
		}
		x.counted += (span - slack) / 2
		if l := t.referee.ledger.sessions[x.session]; l != nil && !l.over && x.counted > x.ttl+slack {
			w.fail("I8", "a session with a TTL of %v is dead since %v, and take-overs keep it alive", x.ttl, x.since)
		}
	}
}

// shut begins a lock-delay, or what a rider leaves.
func (l *ledger) shut(of map[string][]closing, name string, d time.Duration) {
	of[name] = append(of[name], closing{l.at, d, d})
}

// shuts takes in what the log says to be left of what closes a name.
func shuts(all []closing, left time.Duration) {
	for i := range all {
		all[i].left = left
	}
}

// open holds a grant against the lock-delays of its names, when the log does not
// say before that they are open again.
func (l *ledger) open(x *entry) {
	for _, g := range x.grants {
		if x.mode != locktable.Shared {
			l.reopened(l.closed, g.Name)
		}
	}
}

// reopened: a name is open again. The server whose tenure it is must have
// counted all that was left.
func (l *ledger) reopened(of map[string][]closing, name string) {
	r := l.referee
	now := r.current()
	for _, c := range of[name] {
		if now == nil || r.rebuilding {
			break
		}
		since := max(c.since, now.served)
		if got := now.server.usable(since, l.at); got+got/500 < c.need {
			r.world.fail("I2", "%s opens %s after %v of usable time, and %v was left of what closes it", now.server.name, name, got, c.need)
		}
	}
	delete(of, name)
}
