package pawl

import "time"

// close begins the end: nothing more is asked, and the session is closed if a
// server can be reached in time.
func (c *core) close(within time.Duration) {
	if c.closing || c.finished {
		return
	}
	c.closing, c.closeBy = true, c.t+within
	for _, n := range c.numbers() {
		if r := c.requests[n]; r.kind != callRelease {
			delete(c.requests, n)
			r.answer(nil, ErrClosed)
		}
	}
	for _, call := range c.dialled {
		call.answer(nil, ErrClosed)
	}
	c.dialled = nil
	c.answerTTL(ErrClosed)
	c.endWatches(ErrClosed, every)
	for _, l := range c.held() {
		l.become(leaseReleased, ErrClosed, ErrReleased)
	}
	clear(c.leases)
	switch {
	case c.session.id == nil:
		c.finish(true)
	case c.line.state == lineUp:
		c.effects.close = true
	default:
		c.line.dialAt = c.t
	}
}

// finish ends the client; confirmed: no lease of it is left at the server.
func (c *core) finish(confirmed bool) {
	c.finished, c.unconfirmed = true, !confirmed
	c.session.standing.end()
	c.hangUp(nil)
	c.endWatches(ErrClosed, every)
	for _, n := range c.numbers() {
		r := c.requests[n]
		delete(c.requests, n)
		if confirmed && r.kind == callRelease {
			r.answer(nil, nil)
		} else {
			r.answer(nil, unavailable(c.line.trouble))
		}
	}
}
