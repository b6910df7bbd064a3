package small

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/trust"
)

// name is what everything is about.
const name = "n"

// client has a session on a stream and wants the name.
type client struct {
	world   *World
	id      int
	session locktable.ID
	window  trust.Window
	stream  *stream
	// up: the stream was greeted; greeting is the renewal that stands for it.
	up         bool
	generation uint64
	greeting   uint64
	// ttl is what it asks for.
	ttl time.Duration
	// sent is when renewals were sent, in steps, by number.
	sent []int
	// request is the number of the acquire that is not answered, releasing that
	// of the release; 0: none.
	next, request, releasing uint64
	token                    guard.Token
	// gave is the token that was released last.
	gave guard.Token
	// lost: the session is given up.
	lost bool
	// claimed: the resource was claimed with token, and was at version seen
	// then. writing: a write is under way.
	claimed, writing bool
	seen             int
}

// stream is one connection: a queue each way.
type stream struct {
	client     int
	server     int
	epoch      uint64
	generation uint64
	up         []message
	down       []answer
	// tooLate are the renewals and requests that arrived when the server's
	// tenure was over already.
	tooLate []question
	cut     bool
}

type message struct {
	urgent, acquires []locktable.Command
	asks             []question
}

// question is a renewal or a request, by its number.
type question struct {
	renewal bool
	number  uint64
}

type answer struct {
	number uint64
	is     locktable.Answer
}

func (c *client) name() string { return [...]string{"client 1", "client 2"}[c.id] }

// trusts reports whether the client believes in its session.
func (c *client) trusts() bool { return !c.lost && c.window.Remaining(c.world.reading()) > 0 }

// send sends commands after the sign of life that is in every message, and that
// may renew and ask for a TTL.
func (c *client) send(heard locktable.Heard, asks question, urgent, acquires []locktable.Command) {
	heard.Ref, heard.Session, heard.Generation, heard.Finished = c.stream, c.session, c.generation, c.lowest()
	m := message{urgent: append([]locktable.Command{heard}, urgent...), acquires: acquires}
	if asks != (question{}) {
		m.asks = []question{asks}
	}
	c.stream.up = append(c.stream.up, m)
}

// lowest is below every request that is not answered.
func (c *client) lowest() uint64 {
	low := c.next
	for _, n := range []uint64{c.request, c.releasing} {
		if n != 0 {
			low = min(low, n)
		}
	}
	return low
}

func (c *client) renewal() uint64 {
	n := c.window.Send(c.world.reading())
	for uint64(len(c.sent)) <= n {
		c.sent = append(c.sent, c.world.steps)
	}
	return n
}

// renew asks for a TTL as well unless that is 0.
func (c *client) renew(ttl time.Duration) {
	n := c.renewal()
	c.send(locktable.Heard{Renewal: n, TTL: ttl}, question{true, n}, nil, nil)
}

// askTTL renews and asks for another TTL. When that is lower it goes on counting
// on what it was promised, as it may, and as the SDK does not.
func (c *client) askTTL(ttl time.Duration) {
	if ttl > c.ttl {
		c.window.Ask(c.world.reading(), ttl)
	}
	c.ttl = ttl
	c.renew(ttl)
}

// greet begins a stream to a server, and cuts the one before.
func (c *client) greet(s *server) {
	a := locktable.Attach{
		Session: c.session, Generation: c.generation + 1, TTL: c.ttl, Cell: cellID, Highest: c.token,
		Next: c.next,
	}
	if c.generation == 0 {
		c.session = locktable.ID{byte(c.id + 1)}
		a.Session, a.New = locktable.ID{}, c.session
	}
	if c.stream != nil {
		c.disconnect()
		c.window.Forget()
	}
	if c.token != 0 {
		a.Held = []uint64{uint64(c.token)}
	}
	if c.request != 0 {
		a.Wanted = []uint64{c.request}
	}
	c.generation++
	c.stream = &stream{client: c.id, server: s.id, epoch: s.epoch, generation: c.generation}
	c.world.streams = append(c.world.streams, c.stream)
	c.releasing, a.Ref = 0, c.stream
	c.greeting = c.renewal()
	c.stream.up = []message{{urgent: []locktable.Command{a}, asks: []question{{true, c.greeting}}}}
}

func (c *client) acquire() {
	c.request = c.next
	c.next++
	c.ask()
}

func (c *client) ask() {
	c.send(locktable.Heard{}, question{false, c.request}, nil, []locktable.Command{locktable.Acquire{
		Ref: c.stream, Session: c.session, Generation: c.generation, Number: c.request, Names: []string{name},
	}})
}

func (c *client) release() {
	c.releasing = c.next
	c.next++
	c.gave = c.token
	c.drop()
	c.send(locktable.Heard{}, question{false, c.releasing}, []locktable.Command{locktable.Release{
		Ref: c.stream, Session: c.session, Generation: c.generation, Number: c.releasing, Token: c.gave,
	}}, nil)
}

// hear takes the first answer of the present stream.
func (c *client) hear() {
	a := c.stream.down[0]
	c.stream.down = c.stream.down[1:]
	switch is := a.is.(type) {
	case locktable.Attached:
		c.up = true
		c.window.Ack(c.greeting, is.TTL)
		if slices.Contains(is.Lost, uint64(c.token)) {
			c.drop()
		}
		if c.request != 0 {
			c.ask()
		}
	case locktable.Renewed:
		c.window.Ack(is.Number, is.TTL)
	case locktable.Closed:
		if is.Reason == locktable.Gone {
			c.lose()
		} else {
			c.up = false
		}
	case locktable.Notice:
		if is.Ended && is.Token == c.token {
			c.drop()
		}
	case locktable.Granted:
		if a.number == c.request {
			c.request, c.token = 0, is.Token
		}
	case locktable.Done, locktable.Refused:
		if a.number == c.releasing {
			c.releasing = 0
		}
	}
	c.world.judge.believes(c)
}

func (c *client) drop() { c.token, c.claimed, c.writing = 0, false, false }

// disconnect ends the connection.
func (c *client) disconnect() {
	c.up, c.stream.cut, c.stream.down = false, true, nil
}

// lose gives up the session and all that belongs to it.
func (c *client) lose() {
	c.drop()
	c.disconnect()
	c.lost = true
	c.request, c.releasing, c.window = 0, 0, trust.Window{}
}

// String names what a message is for.
func (m message) String() string {
	if len(m.acquires) > 0 {
		return fmt.Sprintf("%T", m.acquires[0])
	}
	return fmt.Sprintf("%T", m.urgent[len(m.urgent)-1])
}
