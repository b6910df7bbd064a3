package sim

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/session"
	"github.com/pawlproject/pawl/internal/wire"
)

// stream is one client's connection to one server process, with the server's end of it.
// Messages in one direction arrive in order or not at all, and the end of a connection
// arrives after everything that was sent on it. A greeting may be slow: it may reach
// its server after the client has given it up and been at another server.
type stream struct {
	world      *World
	client     *client
	server     *server
	clientLife uint32
	serverLife uint32
	attempt    *session.Attempt
	// dialled is when the client began it, by its clock.
	dialled clock.Reading
	// hello is the greeting, as the server has read it.
	hello      *linkpb.Hello
	session    locktable.ID
	generation uint64
	// there and back are when the last message of either way arrives.
	there, back time.Duration
	// deaf: the client hears nothing of it any more; over: the server.
	deaf, over bool
	// swallowed: everything is lost and nobody is told; lostUp, lostDown: what goes one
	// way is.
	swallowed, lostUp, lostDown bool
	// held: the greeting is kept until the server serves.
	held bool
	// slow: what is to be sent gathers for a moment, as behind a sender that is busy.
	slow    bool
	pending []*linkpb.ClientMessage

	packer wire.Packer
	items  []wire.Item
}

// delivery is what a stream brings its client: a message, or its end.
type delivery struct {
	stream  *stream
	message *linkpb.ServerMessage
	why     *session.Cause
}

func (d delivery) to(m *session.Machine) {
	if attempt := d.stream.attempt.ID; d.why != nil {
		m.Disconnected(attempt, d.why)
	} else {
		m.Heard(attempt, d.message)
	}
}

// trouble draws what becomes of the connection at a message; false: the message
// is lost.
func (x *stream) trouble() bool {
	r, rates := x.client.network, x.world.faultRates()
	switch {
	case x.swallowed:
		return false
	case x.server.isolated || x.client.cutOff || chance(r, rates.Swallow):
		x.swallowed = true
		return false
	case chance(r, rates.Cut):
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

var errReset = errors.New("connection reset")

// reset tells the client that the connection is broken.
func (x *stream) reset(after time.Duration) {
	x.swallowed = true
	x.world.push(event{at: x.world.now + after, who: &x.client.process, life: x.clientLife, do: func() {
		x.bring(delivery{why: &session.Cause{Kind: session.NetworkError, NetworkErr: errReset}})
	}})
}

// bring hands something to the client's loop.
func (x *stream) bring(d delivery) {
	if c := x.client; !x.deaf {
		d.stream = x
		c.inbox = append(c.inbox, d)
		c.poke()
	}
}

// detach tells the server that the connection is gone, after all that was sent on it.
func (x *stream) detach(after time.Duration) {
	x.there = max(x.there, x.world.now+after)
	x.toServer(x.there, func() {
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
	if chance(c.network, c.world.faultRates().Slow) {
		return between(c.network, 10*time.Millisecond, 3*time.Second)
	}
	return between(c.network, 100*time.Microsecond, 4*time.Millisecond)
}

// carry has something happen at the server when it arrives there, if it does.
func (x *stream) carry(delay time.Duration, arrive func()) {
	if !x.trouble() {
		return
	}
	if x.lostUp = x.lostUp || chance(x.client.network, x.world.faultRates().LoseUp); x.lostUp {
		return
	}
	x.there = max(x.there, x.world.now+delay)
	x.toServer(x.there, func() {
		if !x.over {
			arrive()
		}
	})
}

// greet sends the greeting, and before it what is to be given up.
func (x *stream) greet() {
	c := x.client
	delay := c.delay()
	if chance(c.network, x.world.faultRates().Late) {
		delay = between(c.network, 0, 8*time.Second)
	}
	var all [][]byte
	for _, m := range session.Greeting(x.attempt.Hello) {
		all = append(all, x.world.encode(x.client.name, m))
	}
	x.carry(delay, func() {
		for i, raw := range all {
			m := new(linkpb.ClientMessage)
			x.world.decode(x.server.name, raw, m)
			if i == 0 {
				x.hello = m.Hello
			} else if err := wire.Further(x.hello, m); err != nil {
				x.world.fail("wire", "%s greets with what is no greeting: %v", x.client.name, err)
			}
		}
		x.arrive()
	})
}

// encode writes a message as it goes over the wire, so that nothing is shared by its
// two ends; decode reads it.
func (w *World) encode(who string, m proto.Message) []byte {
	raw, err := proto.Marshal(m)
	if err != nil {
		w.fail("wire", "%s says what cannot be written: %v", who, err)
	}
	return raw
}

func (w *World) decode(who string, raw []byte, m proto.Message) {
	if err := proto.Unmarshal(raw, m); err != nil {
		w.fail("wire", "%s hears what cannot be read: %v", who, err)
	}
}

// arrive has a greeting reach its server. One that does not serve keeps it for as long
// as the client has patience.
func (x *stream) arrive() {
	s, h := x.server, x.hello
	if !s.serving && h.WaitNano > 0 && !x.held {
		x.held = true
		s.waitingStreams = append(s.waitingStreams, x)
		x.toServer(x.world.now+min(time.Duration(h.WaitNano), 2*x.world.plan.activeTTL(s.id)), func() {
			if x.held {
				x.arrive()
			}
		})
		return
	}
	x.held = false
	if x.over {
		return
	}
	if !s.serving {
		x.turnAway()
		return
	}
	if no := wire.CheckHello(h); no != nil {
		x.world.fail("wire", "%s greets with what is no greeting: %s", x.client.name, no.Message)
		return
	}
	var all []locktable.Command
	for _, dead := range x.attempt.Closing {
		all = append(all, locktable.Close{Ref: nobody{}, Session: idOf(dead)})
	}
	opens := len(h.Session) == 0
	if opens {
		x.session = x.world.newID()
		// Nothing was asked in it before.
		x.world.referee.promises.asked(x.session, time.Duration(h.TtlNano))
	}
	s.streams = append(s.streams, x)
	if x.client.stream == x {
		x.world.referee.times.hears(s, x)
	}
	hello := wire.Hello(h, true)
	s.add(append(all, x.sender().Attach(&hello, opens)), nil)
}

// turnAway says that this server does not serve, and perhaps who does.
func (x *stream) turnAway() {
	x.over = true
	last := &linkpb.Closed{Reason: linkpb.Reason_REASON_UNAVAILABLE}
	if a := x.world.active(); a != nil && a != x.server && chance(x.client.network, 0.5) {
		last.ActiveLink = a.name
	}
	x.say(&linkpb.ServerMessage{Closed: last})
}

func (x *stream) sender() cell.Sender {
	return cell.Sender{Ref: x, Session: x.session, Generation: x.generation}
}

// put sends a message, or has it gather with others.
func (x *stream) put(m *linkpb.ClientMessage) {
	waits := len(x.pending) > 0
	x.pending = session.Gather(x.pending, m)
	switch {
	case !x.slow:
		x.sendPending()
	case !waits:
		x.world.after(&x.client.process, between(x.client.network, 0, 3*time.Millisecond), x.sendPending)
	}
}

func (x *stream) sendPending() {
	all := x.pending
	x.pending = nil
	if x.deaf {
		return
	}
	for _, m := range all {
		for m != nil {
			var first *linkpb.ClientMessage
			first, m = session.Split(m)
			x.send(first)
		}
	}
}

// send carries a message to the server, which takes it apart.
func (x *stream) send(said *linkpb.ClientMessage) {
	raw := x.world.encode(x.client.name, said)
	x.carry(x.client.delay(), func() {
		s, m := x.server, new(linkpb.ClientMessage)
		x.world.decode(s.name, raw, m)
		if !s.serving {
			x.turnAway()
			return
		}
		if err := wire.CheckMessage(m); err != nil {
			x.world.fail("wire", "%s sends what is no message: %v", x.client.name, err)
			return
		}
		if x.client.stream == x {
			x.world.referee.times.hears(s, x)
		}
		said, unknown := wire.Sorter{
			Place: func(number uint64, ticket []byte) locktable.Place { return s.core.Place(x.session, number, ticket) },
			Admit: func(*linkpb.Request) bool { return true },
		}.Sort(m)
		if len(unknown) > 0 {
			x.world.fail("wire", "%s asks what nobody knows, as request %d", x.client.name, unknown[0])
		}
		var acquires []locktable.Command
		for _, a := range x.sender().Acquires(&said) {
			acquires = append(acquires, a)
		}
		s.add(x.sender().Urgent(&said), acquires)
	})
}

// receive takes an answer of the cell, until the server has said all of a turn.
func (x *stream) receive(number uint64, a locktable.Answer) {
	x.items = append(x.items, wire.Item{Number: number, Answer: a})
	if len(x.items) == 1 {
		x.server.unsent = append(x.server.unsent, x)
	}
}

// flush sends what the cell has answered.
func (x *stream) flush() {
	rest := x.items
	x.items = nil
	for len(rest) > 0 {
		var m *linkpb.ServerMessage
		m, rest, _ = x.packer.Pack(rest)
		x.say(m)
	}
}

// say carries a message to the client.
func (x *stream) say(m *linkpb.ServerMessage) {
	if m.Closed != nil {
		x.over = true
	}
	if x.deaf || !x.trouble() {
		return
	}
	if x.lostDown = x.lostDown || chance(x.client.network, x.world.faultRates().LoseDown); x.lostDown {
		return
	}
	w := x.world
	raw := w.encode(x.server.name, m)
	x.back = max(x.back, w.now+x.client.delay())
	w.push(event{at: x.back, who: &x.client.process, life: x.clientLife, do: func() {
		m := new(linkpb.ServerMessage)
		w.decode(x.client.name, raw, m)
		x.bring(delivery{message: m})
	}})
}

// closeFromClient ends the stream from the client's side. What it sent before still arrives,
// before the end does.
func (x *stream) closeFromClient() {
	x.deaf = true
	if !x.swallowed && !x.lostUp {
		x.detach(between(x.client.network, time.Millisecond, 2*time.Second))
	}
}

// The server's end, for the packer.

// Welcome is the greeting.
func (x *stream) Welcome(a locktable.Attached) *linkpb.Welcome {
	s := x.server
	return wire.Welcome(a, cell.Info{Cell: cellID, Epoch: s.tenure.Epoch(), ActiveTTL: x.world.plan.activeTTL(s.id)}, x.session[:])
}

// Closed is the last word.
func (x *stream) Closed(a locktable.Closed) *linkpb.Closed {
	return &linkpb.Closed{Reason: wire.Reason(a.Reason), Message: a.Message}
}

// Refused is a refusal.
func (x *stream) Refused(a locktable.Refused) *linkpb.Refused { return wire.Refused(a) }

// Ticket writes a place.
func (x *stream) Ticket(number uint64, p locktable.Place) []byte {
	return x.server.core.Ticket(x.session, number, p)
}

// Now is the server's time.
func (x *stream) Now() clock.Reading { return x.server.clock.read(x.world.now) }
