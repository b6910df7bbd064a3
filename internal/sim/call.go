package sim

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// call is one request without a stream, and the server's front for it, as
// cell's unary.go has it.
type call struct {
	world      *World
	client     *unaryClient
	clientLife uint32
	server     *server
	serverLife uint32
	command    locktable.Command
	wait       time.Duration

	// Of the front: overdue, the wait has ended; alone, nobody waits any more.
	overdue, alone, answered bool
	// hungUp is when its server decided that its connection has ended, 0: it has not.
	hungUp time.Duration
	// arrived: the server has the request; ended: the connection was cut before that.
	arrived, ended bool
	// Of the client: sent is when; got is called once, with nil when no answer
	// came.
	sent      time.Duration
	got       func(x *call, a locktable.Answer)
	completed bool
}

// send carries a request to a server; got is told the answer, or nil.
func (c *unaryClient) send(command func(ref locktable.Ref) locktable.Command, wait, patience time.Duration, got func(x *call, a locktable.Answer)) {
	w := c.world
	c.turn++
	s := w.servers[(c.turn+c.plan.ID)%len(w.servers)]
	x := &call{
		world: w, client: c, clientLife: c.life, server: s, serverLife: s.life, wait: wait, got: got, sent: w.now,
	}
	x.command = command(x)
	rates := w.faultRates()
	if !s.isolated && !chance(c.network, rates.Lose) {
		x.toServer(c.delay(), x.arrive)
	}
	if chance(c.network, rates.Double) {
		// Something between client and server sends it once more.
		y := *x
		y.got, y.completed = nil, true
		y.command = command(&y)
		y.toServer(c.delay()*2, y.arrive)
		if a, ok := y.command.(locktable.Acquire); ok {
			// Nobody is told what comes of it.
			w.recorder.asks(&c.process, &acquireSpec{names: a.Names, mode: a.Mode, slots: a.Slots}, a.Try)
		}
	}
	w.after(&c.process, patience, func() {
		if !x.completed {
			x.complete(nil)
			x.toServer(between(c.network, 0, time.Second), x.abandon)
		}
	})
}

func (c *unaryClient) delay() time.Duration {
	if chance(c.network, c.world.faultRates().Slow) {
		return between(c.network, 10*time.Millisecond, 3*time.Second)
	}
	return between(c.network, 100*time.Microsecond, 4*time.Millisecond)
}

func (x *call) toServer(after time.Duration, do func()) {
	x.world.push(event{at: x.world.now + after, who: &x.server.process, life: x.serverLife, do: do})
}

// arrive hands the request to the server.
func (x *call) arrive() {
	s := x.server
	if !s.serving {
		x.receive(0, locktable.Refused{Reason: locktable.Unavailable})
		return
	}
	if x.arrived = true; x.ended {
		// A connection ends behind what was sent on it.
		x.toServer(between(x.client.network, 0, 100*time.Millisecond), x.abandon)
	}
	s.calls = append(s.calls, x)
	if _, acquire := x.command.(locktable.Acquire); !acquire {
		s.add([]locktable.Command{x.command}, nil)
		return
	}
	s.add(nil, []locktable.Command{x.command})
	if x.wait > 0 {
		x.toServer(x.wait, func() {
			if x.answered || x.alone || !s.serving {
				return
			}
			if s.withdraw(x) {
				x.receive(0, locktable.Refused{Reason: locktable.Held})
				return
			}
			x.overdue = true
			s.add([]locktable.Command{locktable.Cancel{Waiter: x}}, nil)
		})
	}
}

// withdraw takes back an acquire that was not decided.
func (s *server) withdraw(x locktable.Ref) bool {
	before := len(s.acquires)
	s.acquires = slices.DeleteFunc(s.acquires, func(c locktable.Command) bool {
		a, ok := c.(locktable.Acquire)
		return ok && a.Ref == x
	})
	return len(s.acquires) < before
}

// abandon: the client's connection is gone.
func (x *call) abandon() {
	if !x.arrived {
		x.ended = true
		return
	}
	if x.answered || x.alone {
		return
	}
	x.alone = true
	if _, acquire := x.command.(locktable.Acquire); acquire && x.server.serving && !x.server.withdraw(x) {
		x.server.add([]locktable.Command{locktable.DetachWaiter{Waiter: x}}, nil)
	}
}

// receive takes the answer at the front and sends it on.
func (x *call) receive(_ uint64, a locktable.Answer) {
	if _, waiting := a.(locktable.Waiting); waiting || x.answered {
		return
	}
	s := x.server
	if x.alone {
		if g, granted := a.(locktable.Granted); granted && len(g.Salt) == 0 && s.serving {
			s.add([]locktable.Command{locktable.Release{Ref: x, Lease: x.command.(locktable.Acquire).Lease}}, nil)
		}
		return
	}
	x.answered = true
	s.calls = slices.DeleteFunc(s.calls, func(y *call) bool { return y == x })
	if no, refused := a.(locktable.Refused); refused && x.overdue && no.Reason == locktable.Cancelled {
		a = locktable.Refused{Reason: locktable.Held}
	}
	if s.isolated || chance(x.client.network, x.world.faultRates().Lose) {
		return
	}
	x.world.push(event{
		at: x.world.now + x.client.delay(), who: &x.client.process, life: x.clientLife, do: func() { x.complete(a) },
	})
}

// lose: the server died with the request.
func (x *call) lose() { x.answered = true }

func (x *call) complete(a locktable.Answer) {
	if !x.completed {
		x.completed = true
		x.got(x, a)
	}
}
