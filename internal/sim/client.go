package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/session"
)

// client is a process that runs the SDK's machine. What is here is what the SDK has
// around it: a loop that waits, and callers.
type client struct {
	process
	world   *World
	plan    ClientPlan
	network *rand.Rand

	machine *session.Machine
	// inbox is what streams have brought, asks what callers want, until the next turn.
	inbox []delivery
	asks  []func(*session.Machine)
	// due: a turn is scheduled for this moment. wakes numbers the timers; only the newest
	// one starts a turn.
	due   bool
	wakes uint64
	// session and deadline are what callers know of it.
	session  locktable.ID
	deadline session.Deadline
	// acknowledged is when the last renewal was sent that has been answered, by its clock.
	acknowledged clock.Reading
	// cutOff: nothing passes between it and the servers.
	cutOff bool
	moods  moods
	stream *stream
	// told is the stream whose message was handled last.
	told *stream
	up   bool

	dialledAt time.Duration
	// sent is when the renewal of each number, modulo its length, was sent, and sentAt the
	// same by its clock.
	sent   [1024]time.Duration
	sentAt [1024]clock.Reading

	requests []*request
	leases   []*lease
	// seen is who holds the names that are observed.
	seen    map[string]guard.Token
	callers []*caller
	done    int
}

// request is what a caller asked and was not told yet.
type request struct {
	acquireSpec
	try bool
	// handle is the machine's, for an acquire.
	handle *session.Request
	// number under which it was asked last, 0: it was not, in that session. granted: the
	// log has a grant to it.
	number  uint64
	session locktable.ID
	granted bool
	// done: nobody waits for it any more.
	done bool
	// lease is what a release or a check is about; nil for an acquire.
	lease *lease
	check bool
	// riding: it is a release that was asked for while the lease rode.
	riding bool
	caller *caller
	// asked is when it was first asked, sent when it was sent last and not answered; 0:
	// it was not.
	asked, sent time.Duration
	acts        []*Act
}

// ticket is the place that a waiter can show.
func (r *request) ticket() locktable.Place {
	if r.handle == nil {
		return locktable.Place{}
	}
	return placeIn(r.handle.Ticket())
}

// lease as its holder knows it.
type lease struct {
	of      *session.Lease
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
	// claims: its holder claims before it acts. ride is how long it may ride, riding the
	// ride that is under way; nil: none is.
	claims bool
	ride   time.Duration
	riding *ride
}

// holder is a client as far as its leases are concerned.
type holder interface {
	// trusted is how long the lease may still be believed in.
	trusted(l *lease) time.Duration
	// rideLeft is how long it may go on without an answer; 0: not beyond that.
	rideLeft(l *lease) time.Duration
	who() *process
}

func newClient(w *World, p ClientPlan) *client {
	c := &client{
		world: w, plan: p, process: process{name: fmt.Sprintf("client%d", p.ID+1)},
		network: w.random(purposeClient + uint64(p.ID)*2), seen: map[string]guard.Token{},
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
	return c.deadline.Left(c.clock.read(c.world.now))
}

func (c *client) start() {
	w := c.world
	c.callers = nil
	c.done = 0
	for i := range c.plan.Callers {
		k := &caller{client: c, id: i}
		c.callers = append(c.callers, k)
		k.think()
	}
	c.moods.want, c.moods.given = c.plan.TTL, c.plan.TTL
	var servers []string
	for i := range w.servers {
		servers = append(servers, w.servers[(i+c.plan.ID)%len(w.servers)].name)
	}
	c.machine = session.New(session.Settings{
		Servers: servers, TTL: c.plan.TTL, Jitter: c.rng.Float64, Spread: w.plan.Spread,
	}, c.clock.read(w.now))
	c.observe()
	c.restless()
	c.poke()
}

// crash forgets everything; a new process begins after a while.
func (c *client) crash(down time.Duration) {
	c.world.note(c.name, "crashes")
	c.world.referee.dies(c)
	if c.stream != nil {
		c.stream.closeFromClient()
	}
	for _, l := range c.leases {
		l.ended = true
	}
	c.life++
	c.session, c.deadline, c.stream, c.told, c.up, c.machine = locktable.ID{}, session.Deadline{}, nil, nil, false, nil
	c.inbox, c.asks, c.due = nil, nil, false
	c.requests, c.leases, c.callers, c.seen = nil, nil, nil, map[string]guard.Token{}
	c.frozen = c.world.now
	c.world.after(&c.process, down, c.start)
}

// ask has the machine asked something in the next turn.
func (c *client) ask(do func(*session.Machine)) {
	c.asks = append(c.asks, do)
	c.poke()
}

// poke has the loop turn, after all that happens at this moment: a process that was
// stopped finds everything at once that has arrived meanwhile.
func (c *client) poke() {
	if !c.due {
		c.due = true
		c.world.after(&c.process, 0, c.turn)
	}
}

// turn is one turn of the SDK's loop.
func (c *client) turn() {
	c.due = false
	w, m := c.world, c.machine
	m.At(c.clock.read(w.now))
	inbox := c.inbox
	c.inbox = nil
	for _, d := range inbox {
		c.told = d.stream
		d.to(m)
		c.hears(d)
	}
	asks := c.asks
	c.asks = nil
	for _, do := range asks {
		do(m)
	}
	m.Tick()
	c.carryOut()
	w.referee.turned(c)
	c.arm()
}

// arm has the loop turn when something becomes due.
func (c *client) arm() {
	c.wakes++
	mine := c.wakes
	c.world.after(&c.process, c.machine.Wake(), func() {
		if c.wakes == mine {
			c.poke()
		}
	})
}

// carryOut does what the machine wants, and sends what it has to say.
func (c *client) carryOut() {
	for all := c.machine.Effects(); len(all) > 0; all = c.machine.Effects() {
		for i := range all {
			c.effect(&all[i])
		}
	}
	for m := c.machine.Message(); m != nil; m = c.machine.Message() {
		c.notes(m)
		c.stream.put(m)
	}
	if was := c.up; c.machine.Up() != was {
		if c.up = !was; c.up {
			c.greeted()
		}
	}
}

// greeted: a stream is there again.
func (c *client) greeted() {
	c.world.note(c.name, "is welcome at %s", c.stream.server.name)
	for _, k := range c.callers {
		if c.plan.Fickle && c.rng.IntN(2) == 0 {
			k.giveUp()
		}
	}
}

// lost gives up what belonged to a session.
func (c *client) lost(why string) {
	w := c.world
	w.note(c.name, "loses its session: %s", why)
	w.referee.spares(c)
	w.recorder.loses(&c.process)
	c.session = locktable.ID{}
}

// ended: a lease is over.
func (c *client) ended(l *lease, released bool) {
	if !released {
		c.world.note(c.name, "loses token %d of %s", l.token, l.name)
	}
	l.ended = true
	c.leases = slices.DeleteFunc(c.leases, func(x *lease) bool { return x == l })
	for _, k := range c.callers {
		if k.lease == l {
			k.lost()
		}
	}
}
