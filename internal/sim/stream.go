package sim

import (
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// stream is one client's connection with one server process. What goes one way
// arrives in order or not at all; what was sent before a hang-up may arrive
// after the next stream's greeting.
type stream struct {
	world      *World
	client     *client
	server     *server
	clientLife uint32
	serverLife uint32
	session    locktable.ID
	generation uint64
	// there and back are when the last message of either way arrives.
	there, back time.Duration
	// deaf: the client hears nothing of it any more; over: the server.
	deaf, over bool
	// swallowed: everything is lost and nobody is told.
	swallowed bool
	known     bool
}

func (c *client) connect(s *server) *stream {
	w := c.world
	return &stream{world: w, client: c, server: s, clientLife: c.life, serverLife: s.life}
}

// trouble draws what becomes of the connection at a message; false: the message
// is lost.
func (x *stream) trouble() bool {
	r, weather := x.client.network, x.world.weather()
	switch {
	case x.swallowed:
		return false
	case x.server.isolated || chance(r, weather.Swallow):
		x.swallowed = true
		return false
	case chance(r, weather.Cut):
		x.cut()
		return false
	}
	return true
}

// cut breaks the connection; both ends notice, each in its own time.
func (x *stream) cut() {
	x.swallowed = true
	r := x.client.network
	x.reset(between(r, 0, 100*time.Millisecond))
	x.detach(between(r, 0, 500*time.Millisecond))
}

// reset tells the client that the connection is broken.
func (x *stream) reset(after time.Duration) {
	x.swallowed = true
	x.world.push(event{at: x.world.now + after, who: &x.client.process, life: x.clientLife, do: func() {
		if !x.deaf {
			x.client.broken(x)
		}
	}})
}

// detach tells the server that the connection is gone.
func (x *stream) detach(after time.Duration) {
	x.toServer(x.world.now+after, func() {
		if x.over {
			return
		}
		x.over = true
		s := x.server
		for i, y := range s.streams {
			if y == x {
				s.streams = append(s.streams[:i], s.streams[i+1:]...)
				s.add([]locktable.Command{locktable.Detach{Ref: x, Session: x.session, Generation: x.generation}}, nil)
				return
			}
		}
	})
}

func (x *stream) toServer(at time.Duration, do func()) {
	x.world.push(event{at: at, who: &x.server.process, life: x.serverLife, do: do})
}

// delay of a message between client and server.
func (c *client) delay() time.Duration {
	if chance(c.network, c.world.weather().Slow) {
		return between(c.network, 10*time.Millisecond, 3*time.Second)
	}
	return between(c.network, 100*time.Microsecond, 4*time.Millisecond)
}

// send carries commands to the server.
func (x *stream) send(urgent, acquires []locktable.Command) {
	if !x.trouble() {
		return
	}
	x.there = max(x.there, x.world.now+x.client.delay())
	x.toServer(x.there, func() {
		if x.over {
			return
		}
		s := x.server
		switch {
		case !s.serving:
			x.over = true
			x.receive(0, locktable.Closed{Reason: locktable.Unavailable})
			return
		case !x.known:
			x.known = true
			s.streams = append(s.streams, x)
		}
		x.world.referee.times.hears(s, x)
		s.add(urgent, acquires)
	})
}

// receive carries an answer to the client.
func (x *stream) receive(number uint64, a locktable.Answer) {
	if _, closed := a.(locktable.Closed); closed {
		x.over = true
	}
	if x.deaf || !x.trouble() {
		return
	}
	w := x.world
	x.back = max(x.back, w.now+x.client.delay())
	w.push(event{at: x.back, who: &x.client.process, life: x.clientLife, do: func() {
		if !x.deaf {
			x.client.hear(x, number, a)
		}
	}})
}

// hangUp ends the stream from the client's side. What it sent before may still
// arrive.
func (x *stream) hangUp() {
	x.deaf = true
	if !x.swallowed {
		x.detach(between(x.client.network, time.Millisecond, 2*time.Second))
	}
}
