package pawl

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// outstandingMax bounds the acquires of one client that are not decided.
	outstandingMax = 1 << 15
	// spreadMin and spreadMax bound how far the numbers of unfinished requests lie
	// apart: the server remembers every number in between. Whoever has many requests
	// has more room, so that to move them costs a part of what it costs to ask.
	spreadMin = 1024
	spreadMax = 60_000
	// numbersMax is how far they may lie apart when something new is asked; servers
	// refuse what lies 65,536 apart.
	numbersMax = 64_000
	// exhaustedPause is the pause before a request is asked again that met a
	// limit of the server.
	exhaustedPause = 100 * time.Millisecond
)

// request is a numbered question to the server. It is asked again on every new
// stream, under its number, until it is answered.
type request struct {
	number uint64
	kind   callKind
	// calls wait for the answer: one, or for a release all who asked for it.
	calls []*call
	// sent: it is on the present stream; asked: it was on an earlier one.
	sent, asked bool
	// refused: it met a limit and is asked again later, under a new number.
	refused bool
	ticket  []byte
	// replaces is the number under which an acquire was asked with its ticket.
	replaces uint64
	lease    *Lease
	// limit is when callers are told that no answer came; 0: never.
	limit time.Duration
	// renewal must be acknowledged as well before a check is answered.
	renewal  uint64
	answered bool
}

func (r *request) answer(l *Lease, err error) {
	for _, call := range r.calls {
		call.answer(l, err)
	}
	r.calls = nil
}

func alone(c *call) []*call { return []*call{c} }

func (c *core) number() uint64 {
	n := c.next
	c.next++
	return n
}

// enter gives a request its number and asks it when that is possible.
func (c *core) enter(r *request) {
	r.number = c.number()
	c.requests[r.number] = r
	if c.line.state == lineUp && !c.closing {
		c.ask(r)
	}
}

// ask puts a request on the stream.
func (c *core) ask(r *request) {
	if r.refused {
		return
	}
	m := &linkpb.Request{Number: r.number}
	switch r.kind {
	case callAcquire:
		if t := r.calls[0].trace; t != nil {
			m.Trace = true
			c.effects.traced = append(c.effects.traced, traced{t, r.number})
		}
		w := &r.calls[0].wants
		m.What = &linkpb.Request_Acquire{Acquire: &linkpb.Acquire{
			Names: w.names, Try: r.calls[0].try, Label: w.label, Ticket: r.ticket, Replaces: r.replaces,
			Shared: w.shared, Slots: uint32(w.slots), Value: w.value, LockDelayNano: int64(w.lockDelay),
		}}
	case callRelease:
		m.What = &linkpb.Request_Release{Release: &linkpb.Release{Token: uint64(r.lease.token)}}
	case callCheck:
		m.What = &linkpb.Request_Check{Check: &linkpb.Check{Token: uint64(r.lease.token)}}
		r.answered, r.renewal = false, c.sendRenewal()
	}
	r.sent = true
	c.post(m)
}

func (c *core) post(m *linkpb.Request) { c.effects.requests = append(c.effects.requests, m) }

// begin takes in a call.
func (c *core) begin(call *call) {
	switch {
	case c.closing || c.finished:
		c.late(call)
	case call.kind == callOpen:
		if c.session.id != nil {
			call.answer(nil, nil)
			return
		}
		c.dialled = append(c.dialled, call)
	case call.kind == callTTL:
		c.setTTL(call)
	case call.kind == callAcquire:
		if len(c.requests) >= outstandingMax {
			call.answer(nil, fmt.Errorf("%w: %d requests of this client are not answered", ErrExhausted, len(c.requests)))
			return
		}
		if c.next-c.lowest() >= numbersMax {
			call.answer(nil, fmt.Errorf("%w: request %d of this client is not answered, and %d came after it",
				ErrExhausted, c.low, c.next-c.low-1))
			return
		}
		r := &request{kind: callAcquire, calls: alone(call)}
		if call.try {
			r.limit = c.t + c.ttl
		}
		call.request = r
		c.enter(r)
	default:
		c.beginOn(call)
	}
}

// late answers a call that came when the client was ending.
func (c *core) late(call *call) {
	if call.kind == callRelease {
		if state, cause := call.on.state(); state != leaseHeld {
			call.answer(nil, cause)
			return
		}
	}
	call.answer(nil, ErrClosed)
}

// beginOn takes in a release or a check of a lease.
func (c *core) beginOn(call *call) {
	l := call.on
	switch state, cause := l.state(); {
	case state == leaseEnded:
		call.answer(nil, cause)
		return
	case state == leaseReleased && call.kind == callRelease:
		call.answer(nil, nil)
		return
	case state == leaseReleased:
		call.answer(nil, ErrReleased)
		return
	}
	if call.kind == callRelease && l.release != nil {
		l.release.calls = append(l.release.calls, call)
		return
	}
	r := &request{kind: call.kind, calls: alone(call), lease: l}
	if call.kind == callRelease {
		l.release = r
		// The sweep comes every sixth of a TTL, and the answer is due at the
		// deadline.
		r.limit = c.t + max(c.session.window.Remaining(c.now)-c.session.ttl/renewals, 1)
	}
	call.request = r
	c.enter(r)
}

// abandon forgets an acquire whose caller gave up. The server is told as far as
// it may know of the request.
func (c *core) abandon(call *call) {
	if call.kind == callTTL {
		c.abandonTTL(call)
		return
	}
	r := call.request
	if r == nil || c.requests[r.number] != r {
		return
	}
	c.forget(r)
}

func (c *core) cancel(number uint64) {
	c.post(&linkpb.Request{Number: c.number(), What: &linkpb.Request_Cancel{Cancel: &linkpb.Cancel{Number: number}}})
}

func (c *core) forget(r *request) {
	delete(c.requests, r.number)
	switch {
	case c.closing || r.refused:
	case r.sent:
		c.cancel(r.number)
		// It may overtake the request that was to end the old one.
		c.cancelReplaced(r)
	case c.line.state == lineDialling && c.session.id != nil:
		c.line.cancels = append(c.line.cancels, r.number)
		if r.replaces != 0 {
			c.line.cancels = append(c.line.cancels, r.replaces)
		}
	}
	c.moved(r)
}
