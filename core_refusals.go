package pawl

import (
	"errors"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

var (
	errNoGreeting = errors.New("the server did not greet")
	errNonsense   = errors.New("the server's answer makes no sense")
)

type timeoutError struct{ what, server string }

func (e timeoutError) Error() string { return "no answer to a " + e.what + " from " + e.server }

func (c *core) refused(r *request, w *linkpb.Refused) {
	switch {
	case w.Reason == linkpb.Reason_REASON_UNAVAILABLE:
		c.redirect(w.ActiveLink, because(w.Reason, w.Message))
	case r.kind == callAcquire:
		c.refusedAcquire(r, w)
	case r.kind == callRelease && w.Reason == linkpb.Reason_REASON_GONE:
		c.releaseGone(r)
	case r.kind == callCheck && w.Reason == linkpb.Reason_REASON_GONE:
		delete(c.requests, r.number)
		if c.leases[r.lease.token] == r.lease && r.lease.release == nil {
			c.drop(r.lease, errGone)
		}
		_, cause := r.lease.state()
		if cause == nil {
			cause = ErrReleased
		}
		r.answer(nil, cause)
	default:
		delete(c.requests, r.number)
		if r.lease != nil && r.lease.release == r {
			r.lease.release = nil
		}
		r.answer(nil, refusal(w))
	}
}

// releaseGone ends a release whose lease the server does not know. Asked a
// second time, it was the first time that released it; the session lives, so
// it cannot have expired in between.
func (c *core) releaseGone(r *request) {
	if r.asked {
		c.released(r)
		return
	}
	delete(c.requests, r.number)
	if c.leases[r.lease.token] == r.lease {
		c.drop(r.lease, errGone)
	}
	_, cause := r.lease.state()
	r.answer(nil, cause)
}

func (c *core) refusedAcquire(r *request, w *linkpb.Refused) {
	call := r.calls[0]
	// The server may have refused it before it gave up the old number.
	c.cancelReplaced(r)
	switch w.Reason {
	case linkpb.Reason_REASON_EXHAUSTED:
		if call.try {
			break
		}
		call.meets(refusal(w))
		pause := max(time.Duration(w.RetryAfterNano), exhaustedPause)
		c.askLater(r, pause+time.Duration(float64(pause)*c.jitter()))
		return
	case linkpb.Reason_REASON_GONE, linkpb.Reason_REASON_CANCELLED:
		// The number was used up: by a lease that was granted to it and broken
		// before we heard of it. The caller never saw that one.
		c.askLater(r, backoffMin)
		return
	}
	delete(c.requests, r.number)
	r.answer(nil, refusal(w))
}

// askLater lets a request rest. All that rest are asked again together.
func (c *core) askLater(r *request, pause time.Duration) {
	r.refused, r.sent, r.ticket = true, false, nil
	if at := c.t + pause; c.again == 0 || at < c.again {
		c.again = at
	}
}

func (c *core) askAgain() {
	if c.again == 0 || c.t < c.again || c.line.state != lineUp {
		return
	}
	c.again = 0
	for _, n := range c.numbers() {
		if r := c.requests[n]; r.refused {
			delete(c.requests, n)
			r.refused = false
			c.enter(r)
		}
	}
}

// renumber moves long waiters to new numbers, with their ticket and so their
// place, before the server must remember too many numbers behind them.
//
// The old number stays unfinished until the server has answered under the new one.
// Otherwise:
//
//  1. The request waits as number 1, and is moved to 1025.
//  2. The message says "1025 replaces 1" and "all below 1025 is finished". The
//     server heeds the second part first, and forgets number 1 with its place.
//  3. Number 1025 stands at the end of the queue. Or number 1 was granted before
//     2: then nobody gives that lease back, and 1025 waits for it for ever.
func (c *core) renumber() {
	spread := min(max(spreadMin, 4*uint64(len(c.requests))), spreadMax)
	if c.line.state != lineUp || c.next < c.renumberAt || c.next-c.lowest() < spread {
		return
	}
	// What cannot be moved, as a release, keeps the lowest number where it is.
	c.renumberAt = c.next + spread/4
	for _, n := range c.numbers() {
		if c.next-n < spread/2 {
			break
		}
		r := c.requests[n]
		if r.kind != callAcquire || !r.sent || r.ticket == nil || r.replaces != 0 {
			continue
		}
		delete(c.requests, n)
		r.replaces, c.replaced[n] = n, struct{}{}
		c.enter(r)
	}
}

// moved notes that the server knows a request by its present number alone.
func (c *core) moved(r *request) {
	delete(c.replaced, r.replaces)
	r.replaces = 0
}

// cancelReplaced gives up what a request had asked for under its old number.
func (c *core) cancelReplaced(r *request) {
	if r.replaces != 0 {
		c.cancel(r.replaces)
		c.moved(r)
	}
}

// sweep tells callers that no answer came in time. What they asked goes on as
// far as it must: a release until the session ends, a try is taken back.
func (c *core) sweep() {
	ttl := c.session.ttl
	if ttl == 0 {
		ttl = c.ttl
	}
	c.sweepAt = c.t + ttl/renewals
	for _, n := range c.numbers() {
		r := c.requests[n]
		if r.limit == 0 || c.t < r.limit {
			continue
		}
		r.limit = 0
		r.answer(nil, unavailable(c.line.trouble))
		if r.kind == callAcquire {
			c.forget(r)
		}
	}
}

// restart carries on after a session's end: acquires are numbered anew for the
// next session and lose their place, everything else ends with the session.
func (c *core) restart(cause error) {
	old := c.numbers()
	requests := c.requests
	c.requests, c.next, c.low, c.renumberAt, c.again = map[uint64]*request{}, 1, 1, 0, 0
	clear(c.replaced)
	for _, n := range old {
		r := requests[n]
		if r.kind != callAcquire {
			r.answer(nil, cause)
			continue
		}
		r.ticket, r.replaces, r.refused, r.sent, r.asked = nil, 0, false, false, false
		c.enter(r)
	}
}

// refuseAll ends every acquire and every observation when the server will not
// have us at all.
func (c *core) refuseAll(why error) {
	for _, call := range c.dialled {
		call.answer(nil, why)
	}
	c.dialled = nil
	c.answerTTL(why)
	c.endWatches(why, every)
	for _, n := range c.numbers() {
		if r := c.requests[n]; r.kind == callAcquire {
			delete(c.requests, n)
			c.moved(r)
			r.answer(nil, why)
		}
	}
}
