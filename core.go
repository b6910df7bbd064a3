package pawl

import (
	"maps"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/trust"
)

// core is the client's state and all its decisions. It reads no clock, starts
// nothing and waits for nothing: the loop hands it the time, what callers ask
// and what servers say, and carries out what it finds in effects.
type core struct {
	servers []string
	// ttl is what is wanted; see core_ttl.go.
	ttl   time.Duration
	label string
	// jitter returns a number in [0, 1).
	jitter func() float64
	opened func(session []byte)

	start clock.Reading
	now   clock.Reading
	// t is the time since start, for everything that is no promise.
	t time.Duration

	// cell and highest are what was seen; they outlive sessions.
	cell    string
	highest guard.Token

	session session
	line    line

	requests map[uint64]*request
	next     uint64 // number of the next request
	low      uint64 // no request below is unfinished
	// renumberAt is the number before which no request is moved to another one.
	renumberAt uint64
	// replaced are the old numbers of moved requests, until the server has said that
	// it moved them. They count as unfinished.
	replaced map[uint64]struct{}
	again    time.Duration
	sweepAt  time.Duration
	leases   map[guard.Token]*Lease
	watches  watches
	// dialled are the calls that wait for the first session.
	dialled []*call
	// settings are the calls that wait for the TTL to be confirmed.
	settings []*call

	closing  bool
	closeBy  time.Duration
	finished bool
	// unconfirmed: the client ended without the server's word.
	unconfirmed bool

	effects effects
}

// session is what is known of the present one; id is nil while none is open.
type session struct {
	id         []byte
	generation uint64
	// ttl, granted and asking: see core_ttl.go.
	ttl, granted time.Duration
	asking       uint64
	window       trust.Window
	standing     *standing
	shown        trust.State
	renewAt      time.Duration
	// refused: the server would not have us when it was last asked.
	refused bool
	// dead are sessions that were lost here and may live on at the server.
	dead [][]byte
}

// effects is what the loop carries out, in this order.
type effects struct {
	hangUp bool
	dial   *attempt
	// requests, renewal, ttl and close make up the next message, with what is no
	// longer to be observed; what is, goes into one of its own behind it.
	requests           []*linkpb.Request
	renewal            uint64
	ttl                time.Duration
	close              bool
	unobserve, observe []string
	// traced are those of the requests that are followed.
	traced []traced
	events []Event
}

func newCore(servers []string, o Options, now clock.Reading, jitter func() float64) *core {
	c := &core{
		servers: servers, ttl: o.TTL, label: o.Label, jitter: jitter,
		opened: func([]byte) {},
		start:  now, now: now,
		requests: map[uint64]*request{}, next: 1, low: 1,
		replaced: map[uint64]struct{}{},
		leases:   map[guard.Token]*Lease{},
		watches:  watches{of: map[string]*watch{}},
	}
	c.session.reset()
	return c
}

func (s *session) reset() {
	s.id, s.generation, s.ttl, s.granted, s.asking = nil, 0, 0, 0, 0
	s.window = trust.Window{}
	s.standing = &standing{}
	s.shown, s.refused = trust.Lost, false
}

// at moves the core's time on.
func (c *core) at(now clock.Reading) {
	c.now = now
	c.t = max(c.t, now.Longer(c.start))
}

// tick does what has become due. The loop calls it at the end of every turn,
// after all that had arrived was handled: an answer that is there counts before
// the deadline that it moves.
func (c *core) tick() {
	c.expire()
	if c.finished {
		return
	}
	c.showState()
	if c.closing && c.t >= c.closeBy {
		c.finish(false)
		return
	}
	c.watchLine()
	c.renew()
	c.askAgain()
	c.renumber()
	if len(c.requests) > 0 && c.t >= c.sweepAt {
		c.sweep()
	}
	if len(c.watches.todo) > 0 {
		c.tend()
	}
	c.dial()
}

// wake is how long the loop may sleep when nothing arrives.
func (c *core) wake() time.Duration {
	next := time.Hour
	until := func(at time.Duration) { next = min(next, max(at-c.t, 0)) }
	if c.session.id != nil {
		next = min(next, c.session.window.Change(c.now))
	}
	switch c.line.state {
	case lineUp:
		until(c.session.renewAt)
		if waited, ok := c.session.window.Unanswered(c.now); ok {
			next = min(next, max(c.patience()-waited, 0))
		}
		if c.again != 0 {
			until(c.again)
		}
	case lineDialling:
		until(c.line.giveUpAt)
	case lineDown:
		until(c.line.dialAt)
	}
	if c.closing {
		until(c.closeBy)
	}
	if len(c.requests) > 0 {
		until(c.sweepAt)
	}
	if next <= 0 {
		// What is due and cannot be done yet must not spin. What becomes due within
		// the next millisecond is not put off to its end: it may be a deadline.
		return time.Millisecond
	}
	return next
}

// message takes what is to be sent, one message after the other; nil when there
// is nothing more. One that gives names up observes none: the server would heed
// its words in another order.
func (c *core) message() *linkpb.ClientMessage {
	e := &c.effects
	if c.line.state != lineUp {
		return nil
	}
	if len(e.requests) == 0 && e.renewal == 0 && !e.close && len(e.unobserve) == 0 {
		if len(e.observe) == 0 {
			return nil
		}
		m := &linkpb.ClientMessage{Observe: e.observe}
		e.observe = nil
		return m
	}
	m := &linkpb.ClientMessage{
		FinishedBelow: c.lowest(), Renewal: e.renewal, TtlNano: int64(e.ttl), Requests: e.requests, Unobserve: e.unobserve, Close: e.close,
	}
	e.requests, e.renewal, e.ttl, e.unobserve, e.close = nil, 0, 0, nil, false
	return m
}

// lowest is the number below which every request is finished.
func (c *core) lowest() uint64 {
	for c.low < c.next && !c.unfinished(c.low) {
		c.low++
	}
	return c.low
}

func (c *core) unfinished(n uint64) bool {
	_, moving := c.replaced[n]
	return moving || c.requests[n] != nil
}

func (c *core) emit(kind EventKind, err error) {
	e := Event{Kind: kind, Err: err, Leases: len(c.leases)}
	if kind != Lost {
		e.Remaining = c.session.window.Remaining(c.now)
	}
	c.effects.events = append(c.effects.events, e)
}

// wanted are the numbers that a greeting names: those of the unfinished requests,
// and those that they had before where the server may not have moved them yet.
func (c *core) wanted() []uint64 {
	all := c.numbers()
	if len(c.replaced) > 0 {
		all = slices.AppendSeq(all, maps.Keys(c.replaced))
		slices.Sort(all)
	}
	return all
}

// numbers are those of the unfinished requests, in order.
func (c *core) numbers() []uint64 {
	all := make([]uint64, 0, len(c.requests))
	for n := range c.requests {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// held are the leases, by token.
func (c *core) held() []*Lease {
	all := make([]*Lease, 0, len(c.leases))
	for _, l := range c.leases {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *Lease) int {
		if a.token < b.token {
			return -1
		}
		return 1
	})
	return all
}
