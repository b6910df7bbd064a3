package pawl

import (
	"errors"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

type lineState uint8

const (
	lineDown lineState = iota
	lineDialling
	lineUp
)

// line is the way to a server: at most one attempt or stream at a time.
type line struct {
	state lineState
	// id numbers attempts; what comes from an older one is not heard.
	id       uint64
	attempt  *attempt
	dialled  time.Duration
	giveUpAt time.Duration
	dialAt   time.Duration
	upSince  time.Duration
	// turn picks the next server of the list, goTo is where a server, sentBy,
	// sent us.
	turn   int
	goTo   string
	sentBy string
	// unreached is a server that is not to be waited for: we were sent there and did
	// not reach it, or it served us and serves no more.
	unreached string
	// failures in a row, since the beginning of epoch or since a steady stream.
	failures int
	// epoch is the newest tenure that has welcomed us.
	epoch uint64
	// refusals are those in a row of servers that will not have this client.
	refusals int
	trouble  error
	// cancels are requests that the greeting under way still names and that
	// were given up since.
	cancels []uint64
}

// attempt is one try to reach a server: give up what is dead, greet.
type attempt struct {
	id      uint64
	server  string
	sentBy  string // the server that sent us there; empty: it is of the list
	hello   *linkpb.Hello
	renewal uint64
	closing [][]byte
}

const (
	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second
	attemptMin = 200 * time.Millisecond
	attemptMax = 5 * time.Second
	// silentMax bounds the first attempt at each of several servers, while there is
	// no session: one that says nothing must not hold up who has another. Then they
	// get twice the time, round by round: all may be slow.
	silentMax = 2 * time.Second
	// refusedMin and refusedMax bound the pause after a server refused to know this
	// client: asking again soon changes nothing, and is written down there.
	refusedMin = time.Second
	refusedMax = 15 * time.Second
	// patienceMin keeps short TTLs from taking a slow disk for a dead server.
	patienceMin = 500 * time.Millisecond
	patienceMax = 10 * time.Second
	// steady is how long a stream must last to count as a success, unless it is the
	// first one in a tenure.
	steady = time.Second
)

// dial begins an attempt when one is due.
func (c *core) dial() {
	l := &c.line
	if l.state != lineDown || c.t < l.dialAt {
		return
	}
	l.id++
	l.state = lineDialling
	a := &attempt{id: l.id, server: l.goTo, closing: append([][]byte(nil), c.session.dead...)}
	if a.server == "" {
		a.server = c.servers[l.turn%len(c.servers)]
	} else {
		a.sentBy = l.sentBy
	}
	l.goTo, l.sentBy = "", ""
	a.renewal = c.session.window.Send(c.now)
	a.hello = c.hello()
	l.attempt, l.cancels = a, nil
	wait := c.attemptTime()
	l.dialled, l.giveUpAt = c.t, c.t+wait
	// A server that may be about to take over shall rather keep us than be asked
	// again and again, or send us back to who serves no more. It speaks before we
	// give it up, and before long: the one that we did not reach may be back.
	if l.failures > 0 || l.unreached != "" {
		a.hello.WaitNano, a.hello.Unreached = int64(min(wait-wait/4, backoffMax)), l.unreached
	}
	c.effects.dial = a
}

// attemptTime leaves room for several attempts before the deadline.
func (c *core) attemptTime() time.Duration {
	if c.session.id == nil {
		longest := attemptMax
		if n := len(c.servers); n > 1 {
			longest = min(silentMax<<min(c.line.failures/n, 2), attemptMax)
		}
		return min(max(c.ttl/2, attemptMin), longest)
	}
	left := c.session.window.Remaining(c.now)
	return min(max(left/3, attemptMin), attemptMax, left)
}

func (c *core) hello() *linkpb.Hello {
	s := &c.session
	s.generation++
	h := &linkpb.Hello{
		Version: 1, Cell: c.cell, HighestToken: uint64(c.highest),
		Session: s.id, Generation: s.generation, TtlNano: int64(c.ttl), Label: c.label,
	}
	if s.id == nil {
		return h
	}
	for _, l := range c.held() {
		h.Held = append(h.Held, uint64(l.token))
	}
	h.Wanted, h.NextNumber = c.wanted(), c.next
	return h
}

// patience is how long a renewal may stay unanswered before the stream is
// taken for dead: a network that swallows everything tells nothing.
func (c *core) patience() time.Duration {
	return min(max(c.session.ttl/4, patienceMin), patienceMax)
}

func (c *core) watchLine() {
	switch c.line.state {
	case lineDialling:
		if c.t >= c.line.giveUpAt {
			c.unreached()
			c.failed(timeoutError{"greeting", c.line.attempt.server})
		}
	case lineUp:
		if waited, ok := c.session.window.Unanswered(c.now); ok && waited >= c.patience() {
			c.failed(timeoutError{"renewal", c.line.attempt.server})
		}
	}
}

// failed notes that the attempt or the stream is of no more use. Another server
// is tried, after a pause that grows.
func (c *core) failed(why error) {
	l := &c.line
	if l.state == lineDown {
		return
	}
	wasSteady := l.state == lineUp && c.t-l.upSince >= steady
	if wasSteady {
		l.failures = 0
	}
	l.turn++
	c.hangUp(why)
	l.dialAt = c.t
	if !wasSteady {
		l.dialAt += c.backoff()
		l.failures++
	}
}

// turnedAway notes that a server will not have this client. The session, if there
// is one, may be ours until its deadline, and the credential may be mended in
// time; whoever works under its leases is told at once.
func (c *core) turnedAway(why error) {
	c.failed(why)
	if errors.Is(why, ErrDenied) {
		l := &c.line
		l.refusals++
		if round := l.refusals / len(c.servers); round > 0 {
			pause := max(min(c.ttl/renewals, refusedMax), refusedMin) << min(round-1, 5)
			l.dialAt = c.t + min(pause, refusedMax)
		}
		c.session.refused = true
	}
	c.refuseAll(why)
}

// crowdedOut tells those who wait for the first session that a limit of the
// server's keeps it from them. Whoever has had one goes on asking.
func (c *core) crowdedOut(why error) {
	if !errors.Is(why, ErrExhausted) {
		return
	}
	for _, call := range c.dialled {
		call.answer(nil, why)
	}
	c.dialled = nil
}

func (c *core) backoff() time.Duration {
	limit := min(backoffMax, c.ttl/8)
	rounds := min(c.line.failures/len(c.servers), 10)
	d := min(backoffMin<<rounds, limit)
	return d/2 + time.Duration(float64(d/2)*c.jitter())
}

// redirect goes where the active server is said to be. Servers that send us
// round in circles are met with the growing pause.
func (c *core) redirect(to string, why error) {
	if c.kept() {
		c.line.failures = 1 // the pause is behind us
	}
	up := c.line.state == lineUp
	first := c.line.failures == 0 || up
	by := ""
	if c.line.attempt != nil {
		by = c.line.attempt.server
	}
	c.failed(why)
	if to == "" {
		if up {
			c.leave(by)
		}
		return
	}
	c.line.goTo, c.line.sentBy = to, by
	if first {
		c.line.dialAt = c.t
	}
}

// leave notes that a server serves no more, and said so itself. Another is asked
// first, and need not send us back.
func (c *core) leave(server string) {
	l := &c.line
	l.unreached = server
	if n := len(c.servers); n > 1 && c.servers[l.turn%n] == server {
		l.turn++
	}
}

// hangUp cuts the attempt or stream; what was sent on it and not answered will
// be asked again on the next one.
func (c *core) hangUp(why error) {
	l := &c.line
	if l.state != lineDown {
		c.effects.hangUp = true
	}
	l.state, l.attempt = lineDown, nil
	if why != nil {
		l.trouble = why
	}
	c.effects.dial = nil
	c.effects.requests, c.effects.renewal, c.effects.ttl, c.effects.close = nil, 0, 0, false
	c.effects.unobserve, c.effects.observe, c.effects.traced = nil, nil, nil
	c.unwatch()
	c.session.window.Forget()
	for _, r := range c.requests {
		r.asked = r.asked || r.sent
		r.sent = false
	}
}

// kept reports whether the server of this attempt has kept us waiting as it was
// asked to. It works, then, and who waits so asks seldom enough.
func (c *core) kept() bool {
	l := &c.line
	if l.state != lineDialling {
		return false
	}
	asked := time.Duration(l.attempt.hello.WaitNano)
	return asked > 0 && c.t-l.dialled >= asked/2
}

// unreached notes that nobody is where a server sent us: it, and others, need not
// send us there again.
func (c *core) unreached() {
	if l := &c.line; l.state == lineDialling && l.attempt.sentBy != "" {
		l.unreached = l.attempt.server
	}
}

// up notes that a server has welcomed us. What failed before a tenure began is no
// reason for pauses after its end, however soon that comes: servers that are
// restarted one after the other live shortly, and their clients are not to blame.
// Tenures take their time, and in each of them a server that hangs up on us again
// and again is met with the growing pause.
func (c *core) up(epoch uint64) {
	l := &c.line
	if epoch > l.epoch {
		l.epoch, l.failures = epoch, 0
	}
	l.state = lineUp
	l.upSince = c.t
	l.trouble, l.refusals, l.unreached = nil, 0, ""
	c.session.refused = false
}

// heard handles what the stream layer tells; the zero lineEvent tells nothing.
func (c *core) heard(e lineEvent) {
	if c.line.state == lineDown || e.id != c.line.id {
		return
	}
	switch {
	case e.err != nil:
		if e.refused {
			c.turnedAway(e.err)
			return
		}
		c.unreached()
		c.failed(e.err)
		c.crowdedOut(e.err)
	case c.line.state == lineUp:
		c.receive(e.message)
	case e.message.Welcome != nil:
		c.welcome(e.message.Welcome, c.line.attempt)
		if c.line.state == lineUp {
			c.receive(e.message)
		}
	case e.message.Closed != nil:
		c.closed(e.message.Closed)
	default:
		c.failed(errNoGreeting)
	}
}
