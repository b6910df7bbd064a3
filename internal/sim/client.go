package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/trust"
)

// client is a process with a session on a stream, as the SDK has it: it renews,
// comes back after a cut with what it still wants, and gives up what it lost.
type client struct {
	process
	world   *World
	plan    ClientPlan
	network *rand.Rand

	session    locktable.ID
	generation uint64
	window     trust.Window
	moods      moods
	stream     *stream
	up         bool
	// attached: the number of the renewal that the greeting stands for.
	greeting  uint64
	dialledAt time.Duration
	renewAt   time.Duration
	// sent is when renewals were sent, by number.
	sent     [64]time.Duration
	failures int
	turn     int

	requests []*request
	next     uint64
	leases   []*lease
	highest  guard.Token
	// seen is who holds the names that are observed.
	seen    map[string]guard.Token
	callers []*caller
	done    int
}

// request is a numbered question, asked again on every stream until answered.
type request struct {
	number uint64
	wish
	try    bool
	ticket locktable.Place
	// lease is what a release or a check is about; nil for an acquire.
	lease  *lease
	check  bool
	caller *caller
	// asked is when it was first asked, sent when it was under its number; 0: it was
	// not, at once.
	asked, sent time.Duration
	acts        []*Act
}

// lease as its holder knows it.
type lease struct {
	name    string
	grants  []locktable.Grant
	mode    locktable.Mode
	token   guard.Token
	holder  holder
	session locktable.ID
	// ended: released, or known to be lost.
	ended bool
	// releasing: the holder has given it up and does not act on it any more.
	releasing bool
	breaking  bool
}

// holder is a client as far as its leases are concerned.
type holder interface {
	// trusted is how long the lease may still be believed in.
	trusted(l *lease) time.Duration
	who() *process
}

func newClient(w *World, p ClientPlan) *client {
	c := &client{
		world: w, plan: p, process: process{name: fmt.Sprintf("client%d", p.ID+1)},
		network: w.random(purposeClient + uint64(p.ID)*2), next: 1,
	}
	c.rng = w.random(purposeClient + uint64(p.ID)*2 + 1)
	c.clock = newClock(w, w.plan.Servers+p.ID)
	c.moods = newMoods(w, &p, purposeClientMood)
	return c
}

func (w *World) clientOf(id int) *client {
	for _, c := range w.clients {
		if c.plan.ID == id {
			return c
		}
	}
	return nil
}

func (c *client) who() *process { return &c.process }

func (c *client) trusted(l *lease) time.Duration {
	if l.ended || l.session != c.session {
		return 0
	}
	return c.window.Remaining(c.clock.read(c.world.now))
}

func (c *client) start() {
	c.callers = nil
	c.done = 0
	for i := range c.plan.Callers {
		k := &caller{client: c, id: i}
		c.callers = append(c.callers, k)
		k.think()
	}
	c.moods.want, c.moods.given = c.plan.TTL, c.plan.TTL
	c.restless()
	c.tick()
}

// crash forgets everything; a new process begins after a while.
func (c *client) crash(down time.Duration) {
	c.world.tell(c.name, "crashes")
	c.world.referee.dies(c)
	if c.stream != nil {
		c.stream.hangUp()
	}
	for _, l := range c.leases {
		l.ended = true
	}
	c.life++
	c.session, c.generation, c.window, c.stream, c.up = locktable.ID{}, 0, trust.Window{}, nil, false
	c.requests, c.next, c.leases, c.callers = nil, 1, nil, nil
	c.frozen = c.world.now
	c.world.after(&c.process, down, c.start)
}

// tick does what has become due.
func (c *client) tick() {
	w := c.world
	now := c.clock.read(w.now)
	if c.session != (locktable.ID{}) && c.window.Remaining(now) == 0 {
		c.lose("its deadline has passed")
	}
	patience := max(c.moods.ttl()/4, 300*time.Millisecond)
	if c.plan.Patient {
		patience = c.moods.ttl()
	}
	if waited, awaited := c.window.Unanswered(now); c.stream != nil && awaited && waited > patience {
		c.failed()
	}
	switch {
	case c.up && w.now >= c.renewAt:
		c.renew()
	case c.stream == nil && w.now >= c.renewAt:
		c.dial()
	}
	w.after(&c.process, between(c.rng, 20*time.Millisecond, 60*time.Millisecond), c.tick)
}

// every is the time between two renewals.
func (c *client) every() time.Duration {
	e := c.moods.ttl() / locktable.RenewalsPerTTL
	return e + between(c.rng, -e/10, e/10)
}

func (c *client) renew() {
	w := c.world
	c.renewAt = w.now + c.every()
	c.message(c.sendRenewal(), nil, nil)
}

// sendRenewal numbers a renewal that is about to be sent.
func (c *client) sendRenewal() uint64 {
	n := c.window.Send(c.clock.read(c.world.now))
	c.sent[n%uint64(len(c.sent))] = c.world.now
	return n
}

// message sends what has gathered; every message renews.
func (c *client) message(renewal uint64, urgent, acquires []locktable.Command) {
	x := c.stream
	all := make([]locktable.Command, 0, 1+len(urgent))
	all = append(all, locktable.Heard{
		Ref: x, Session: x.session, Generation: x.generation, Renewal: renewal, Finished: c.lowest(),
	})
	x.send(append(all, urgent...), acquires)
}

func (c *client) lowest() uint64 {
	low := c.next
	for _, r := range c.requests {
		low = min(low, r.number)
	}
	return low
}

// dial greets a server, the next of the list.
func (c *client) dial() {
	w := c.world
	c.turn++
	x := c.connect(w.servers[(c.turn+c.plan.ID)%len(w.servers)])
	c.stream, c.dialledAt = x, w.now
	c.generation++
	a := locktable.Attach{
		Ref: x, Session: c.session, Generation: c.generation, TTL: c.moods.want, Cell: cellID, Highest: c.highest,
		Next: c.next,
	}
	if c.session == (locktable.ID{}) {
		a.New = w.newID()
		x.session, c.moods.given = a.New, c.moods.want
	} else {
		x.session = c.session
		for _, l := range c.leases {
			a.Held = append(a.Held, uint64(l.token))
		}
		for _, r := range c.requests {
			a.Wanted = append(a.Wanted, r.number)
		}
	}
	x.generation = c.generation
	c.greeting = c.sendRenewal()
	x.send([]locktable.Command{a}, nil)
}

// failed gives the stream up; another server is tried.
func (c *client) failed() {
	if c.stream != nil {
		c.stream.hangUp()
	}
	c.stream, c.up = nil, false
	c.window.Forget()
	c.failures++
	c.renewAt = c.world.now + between(c.rng, 0, min(20*time.Millisecond<<min(c.failures, 6), c.plan.TTL/8))
}

// broken: the connection was reset.
func (c *client) broken(x *stream) {
	if c.stream == x {
		c.failed()
	}
}

// lose gives up the session and all that belongs to it.
func (c *client) lose(why string) {
	w := c.world
	w.tell(c.name, "loses its session: %s", why)
	w.referee.spares(c)
	w.witness.loses(&c.process)
	if c.stream != nil {
		c.stream.hangUp()
	}
	dead := c.session
	c.session, c.window, c.generation, c.stream, c.up = locktable.ID{}, trust.Window{}, 0, nil, false
	for _, l := range c.leases {
		l.ended = true
	}
	c.leases = nil
	c.renewAt = w.now
	if dead != (locktable.ID{}) {
		c.closeDead(dead)
	}
	old := c.requests
	c.requests, c.next = nil, 1
	for _, r := range old {
		switch {
		case r.check:
			r.caller.checked(r, false)
		case r.lease != nil:
			r.caller.released()
		default:
			// Asked again for the next session.
			r.ticket = locktable.Place{}
			c.enter(r)
		}
	}
	for _, k := range c.callers {
		k.lost()
	}
}

// closeDead tells a server that nobody will come back to a session.
func (c *client) closeDead(dead locktable.ID) {
	w := c.world
	s := pick(c.rng, w.servers...)
	if c.rng.IntN(4) == 0 || s.isolated {
		return
	}
	life := s.life
	w.push(event{at: w.now + c.delay(), who: &s.process, life: life, do: func() {
		if s.serving {
			s.add([]locktable.Command{locktable.Close{Session: dead}}, nil)
		}
	}})
}
