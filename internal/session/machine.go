package session

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/trust"
)

// Settings of a Machine.
type Settings struct {
	// Servers are tried in order, round and round.
	Servers []string
	// TTL is asked for, from 1 s to 24 h; SetTTL changes it.
	TTL   time.Duration
	Label string
	// Jitter returns a random number in [0, 1), which spreads renewals and retries.
	Jitter func() float64
	// Spread is how far the numbers of unfinished requests may lie apart before
	// waiters are renumbered; 0 means SpreadMin.
	Spread uint64
}

// Machine is a client's state and all its decisions: one session at a time, its
// leases, and what is asked and observed in it.
type Machine struct {
	servers []string
	label   string
	jitter  func() float64
	spread  uint64
	// wantTTL is what is asked for; see ttl.go.
	wantTTL time.Duration

	start clock.Reading
	now   clock.Reading
	// t is the time since New; it never runs back. Pauses and time-outs count by it,
	// deadlines by now.
	t time.Duration

	// cell and highest are what was seen; they outlive sessions.
	cell    string
	highest guard.Token

	sessionState
	conn connection

	requests map[uint64]*Request
	next     uint64 // number of the next request
	low      uint64 // no request below is unfinished
	// renumberAt is the number before which no request is moved to another one.
	renumberAt uint64
	// replaced are the old numbers of moved requests, until the server has said that
	// it moved them. They count as unfinished.
	replaced map[uint64]struct{}
	// againAt is when requests that rest are asked again, 0: none rests; sweepAt when
	// callers are told that no answer came in time.
	againAt, sweepAt time.Duration
	leases           map[guard.Token]*Lease
	watches          watches
	// openCallers wait for the first session, ttlCallers for the TTL to be confirmed.
	openCallers, ttlCallers []Ref

	closing  bool
	closeBy  time.Duration
	finished bool
	// unconfirmed: it ended without the server's word.
	unconfirmed bool

	outgoing       outgoing
	effects, spare []Effect
}

// sessionState is what is known of the present session; id is nil while none is open.
type sessionState struct {
	id         []byte
	generation uint64
	// ttl is what is counted on, answeredTTL what the last answer said, askingTTL the
	// renewal that asked for another one; see ttl.go.
	ttl, answeredTTL time.Duration
	askingTTL        uint64
	window           trust.Window
	shown            trust.State
	// ride: the deadline has passed, and leases ride.
	ride    riding
	renewAt time.Duration
	// refused: the server would not have us when it was last asked.
	refused bool
	// dead are sessions that were lost here and may live on at the server.
	dead [][]byte
}

// outgoing is the next message.
type outgoing struct {
	requests           []*linkpb.Request
	asks               []*Request
	renewal            uint64
	ttl                time.Duration
	close              bool
	unobserve, observe []string
}

// New makes a machine that dials at its first Tick.
func New(s Settings, now clock.Reading) *Machine {
	m := &Machine{
		servers: s.Servers, label: s.Label, jitter: s.Jitter, spread: s.Spread, wantTTL: s.TTL,
		start: now, now: now,
		requests: map[uint64]*Request{}, next: 1, low: 1, replaced: map[uint64]struct{}{},
		leases:  map[guard.Token]*Lease{},
		watches: watches{of: map[string]*watch{}},
	}
	if m.spread == 0 {
		m.spread = SpreadMin
	}
	return m
}

// reset forgets the session, but not those that are to be given up.
func (s *sessionState) reset() { *s = sessionState{dead: s.dead} }

// At moves the machine's time on.
func (m *Machine) At(now clock.Reading) {
	m.now = now
	m.t = max(m.t, now.Longer(m.start))
}

// Tick does what has become due. It comes at the end of every turn, after all that
// had arrived was handled: an answer that is there counts before the deadline that it
// moves.
func (m *Machine) Tick() {
	m.expire()
	if m.finished {
		return
	}
	m.showState()
	if m.closing && m.t >= m.closeBy {
		m.finish(false)
		return
	}
	m.checkConnection()
	m.renew()
	m.askAgain()
	m.renumber()
	if len(m.requests) > 0 && m.t >= m.sweepAt {
		m.sweep()
	}
	if len(m.watches.todo) > 0 {
		m.syncWatches()
	}
	m.dial()
}

// Wake is how long the driver may wait when nothing arrives.
func (m *Machine) Wake() time.Duration {
	next := time.Hour
	until := func(at time.Duration) { next = min(next, max(at-m.t, 0)) }
	switch {
	case m.ride.on && !m.closing:
		next = min(next, m.rideChange())
	case m.id != nil && !m.ride.on:
		next = min(next, m.window.Change(m.now))
	}
	switch m.conn.state {
	case connectionUp:
		until(m.renewAt)
		if waited, ok := m.window.Unanswered(m.now); ok {
			next = min(next, max(m.patience()-waited, 0))
		}
		if m.againAt != 0 {
			until(m.againAt)
		}
	case connectionDialling:
		until(m.conn.giveUpAt)
	case connectionDown:
		until(m.conn.dialAt)
	}
	if m.closing {
		until(m.closeBy)
	}
	if len(m.requests) > 0 {
		until(m.sweepAt)
	}
	if next <= 0 {
		// What is due and cannot be done yet must not spin. What becomes due within
		// the next millisecond is not put off to its end: it may be a deadline.
		return time.Millisecond
	}
	return next
}

// Message returns what is to be sent, one message after the other; nil when there is
// nothing more. A message that ends observations begins none, since the server would
// process the two in another order.
func (m *Machine) Message() *linkpb.ClientMessage {
	o := &m.outgoing
	if m.conn.state != connectionUp {
		return nil
	}
	if len(o.requests) == 0 && o.renewal == 0 && !o.close && len(o.unobserve) == 0 {
		if len(o.observe) == 0 {
			return nil
		}
		x := &linkpb.ClientMessage{Observe: o.observe}
		o.observe = nil
		return x
	}
	x := &linkpb.ClientMessage{
		FinishedBelow: m.lowest(), Renewal: o.renewal, TtlNano: int64(o.ttl), Requests: o.requests, Unobserve: o.unobserve, Close: o.close,
	}
	for _, r := range o.asks {
		r.left = true
	}
	*o = outgoing{observe: o.observe}
	return x
}

// lowest is the number below which every request is finished.
func (m *Machine) lowest() uint64 {
	for m.low < m.next && !m.unfinished(m.low) {
		m.low++
	}
	return m.low
}

func (m *Machine) unfinished(n uint64) bool {
	_, moving := m.replaced[n]
	return moving || m.requests[n] != nil
}

// wanted are the numbers that a greeting names: those of the unfinished requests,
// and those that they had before where the server may not have moved them yet.
func (m *Machine) wanted() []uint64 {
	all := m.numbers()
	for n := range m.replaced { //tidy:unordered sorted below
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// numbers are those of the unfinished requests, in order.
func (m *Machine) numbers() []uint64 {
	all := make([]uint64, 0, len(m.requests))
	for n := range m.requests { //tidy:unordered sorted below
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// held are the leases, by token.
func (m *Machine) held() []*Lease {
	all := make([]*Lease, 0, len(m.leases))
	for _, l := range m.leases { //tidy:unordered sorted below
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *Lease) int {
		if a.Token < b.Token {
			return -1
		}
		return 1
	})
	return all
}

// Finished reports whether the machine has ended, after Close. confirmed: no lease of
// it is left at the server.
func (m *Machine) Finished() (finished, confirmed bool) { return m.finished, !m.unconfirmed }

// Trouble is what is wrong with the connection; nil: nothing is known to be.
func (m *Machine) Trouble() *Cause { return m.conn.cause }

// Now is the reading of the present turn, and the time since New, which never runs back.
func (m *Machine) Now() (clock.Reading, time.Duration) { return m.now, m.t }

// Session is the id of the present session; nil: none is open.
func (m *Machine) Session() []byte { return m.id }

// Up reports whether a stream stands and was welcomed.
func (m *Machine) Up() bool { return m.conn.state == connectionUp }
