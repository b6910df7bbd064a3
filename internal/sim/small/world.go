package small

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

const (
	cellID = "small-0123456789abcdef"
	ttl    = time.Second
	// quarter of a TTL is the most that one reading of the clock can add to usable
	// time.
	quarter = ttl / 4
	// confirmsApart keeps two Confirms of a tick apart in time.
	confirmsApart = 3 * time.Millisecond
)

var (
	// atOpening is the wall clock when a tenure opens, atWork when it grants: later,
	// so that the counter never waits for its line. They stand still, so that
	// tokens, 2 the first, depend on what happened and not on when.
	atOpening = time.Unix(0, 0)
	atWork    = atOpening.Add(time.Hour)
)

// World is one state, and how to go on from it.
type World struct {
	bounds Bounds
	// left is what may still happen.
	left Bounds
	// now is the true time in quarters of the TTL, steps counts what has happened.
	now, steps int

	disk     *memstore.Disk
	straying []*stray
	servers  [2]*server
	clients  [2]*client
	streams  []*stream
	resource resource
	judge    *judge

	failure *Violation
	// spared: a renewal went before a batch that the store refuses.
	spared bool
	// resumed: a server has taken over from what it had followed; cut: batches behind a
	// hole were cut while the other one followed.
	resumed, cut bool
}

// Violation is what the judge found.
type Violation struct {
	Invariant, What string
	// Steps lead there.
	Steps []string
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.What }

func (w *World) fail(invariant, format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{Invariant: invariant, What: fmt.Sprintf(format, args...)}
	}
}

func (w *World) reading() clock.Reading {
	return clock.Reading{}.Add(time.Duration(w.now) * quarter)
}

// begin makes the world in which everything else happens: server A serves its
// first tenure, both clients have sessions, client 1 holds the name and client 2
// waits for it.
func begin(b Bounds) *World {
	w := &World{bounds: b, left: b, disk: memstore.NewDisk()}
	w.judge = newJudge(w)
	for i := range w.servers {
		w.servers[i] = &server{world: w, id: i}
	}
	a := w.servers[0]
	a.claim()
	for i := range w.clients {
		c := &client{world: w, id: i, next: 1, ttl: ttl}
		w.clients[i] = c
		c.greet(a)
	}
	w.deliverAll()
	for _, c := range w.clients {
		c.acquire()
	}
	w.deliverAll()
	if b.Alone {
		w.clients[1].disconnect()
	}
	w.steps = 1
	return w
}

// deliverAll lets everything arrive.
func (w *World) deliverAll() {
	a := w.servers[0]
	for busy := true; busy; {
		busy = false
		for i, x := range w.streams {
			if len(x.up) > 0 {
				w.receive(i)
				busy = true
			}
		}
		for len(a.flying) > 0 {
			a.land(0, lands)
			busy = true
		}
		if a.asked {
			a.confirm(false)
			busy = true
		}
		for _, c := range w.clients {
			for len(c.stream.down) > 0 {
				c.hear()
				busy = true
			}
		}
	}
}

// receive has the first message of a stream reach its server, if that server
// still serves the tenure that was greeted.
func (w *World) receive(i int) {
	x := w.streams[i]
	m := x.up[0]
	x.up = x.up[1:]
	if s := w.servers[x.server]; s.phase == serving && s.epoch == x.epoch {
		if w.judge.epoch > s.epoch {
			x.tooLate = append(x.tooLate, m.asks...)
		}
		s.step(m.urgent, m.acquires)
	}
}

// tick lets a tick go by; going are the servers that go on in it, the others
// stand still.
func (w *World) tick(going int) {
	for range w.bounds.Quarters {
		w.now++
		for i, s := range w.servers {
			s.asks = 0
			if going>>i&1 == 1 {
				s.goOn()
			}
		}
		for _, c := range w.clients {
			if !c.lost && !c.trusts() {
				c.lose()
			}
		}
	}
}
