package pawl

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// A client asks for the TTL that it wants, c.ttl, with every greeting, and with a
// renewal when that changes. It counts on what answers say: session.granted is
// what the last one said, session.ttl what it trusts and renews by, the lower of
// the two. So a lower TTL counts from the asking on, and a higher one from the
// answer on. session.asking is the renewal that asked and was not answered.
//
// What the answer to a greeting or a renewal does not confirm is asked for again
// in these ways:
//
//  1. The stream breaks after the asking: the next greeting asks, since all that
//     a server knows of a wish is gone with its tenure.
//  2. The TTL changes while a greeting is under way: a renewal asks, as soon as
//     the stream is there.
//  3. It changes again before the first change is answered: a second renewal
//     asks, and the answer to the first says nothing to anybody.

// setTTL takes in what a caller wants the TTL to be.
func (c *core) setTTL(call *call) {
	s := &c.session
	changed := call.ttl != c.ttl
	if changed {
		c.answerTTL(fmt.Errorf("%w: another call made the TTL %v meanwhile", ErrConflict, call.ttl))
		c.ttl = call.ttl
	}
	c.settings = append(c.settings, call)
	switch {
	case s.id == nil:
	case s.granted == c.ttl && s.asking == 0:
		c.answerTTL(nil)
	case changed:
		s.window.Ask(c.now, c.ttl)
		c.trusted()
		s.ttl = min(s.granted, c.ttl)
		c.askTTL()
	}
}

// askTTL lets the next message ask for the TTL that is wanted.
func (c *core) askTTL() {
	if c.line.state != lineUp || c.closing {
		return
	}
	// A renewal that has not left yet may be of no account any more.
	c.effects.renewal = 0
	c.session.asking = c.sendRenewal()
	c.effects.ttl = c.ttl
}

// greeted takes in what the present session's greeting is good for.
func (c *core) greeted(renewal uint64, ttl time.Duration) {
	s := &c.session
	s.granted, s.ttl, s.asking = ttl, min(ttl, c.ttl), 0
	s.window.Ack(renewal, s.ttl)
}

// greetedTTL answers those who want another TTL, or asks for it: the greeting may
// have been under way already, or its server older than TTLs that change.
func (c *core) greetedTTL() {
	if c.session.granted == c.ttl {
		c.answerTTL(nil)
	} else {
		c.askTTL()
	}
}

// renewed takes in what a renewal is good for.
func (c *core) renewed(m *linkpb.ServerMessage) {
	s := &c.session
	ttl := time.Duration(m.TtlNano)
	if ttl == 0 {
		// A server that is older than TTLs that change gives what it gave.
		ttl = s.granted
	}
	if ttl < ttlMin || ttl > ttlMax {
		c.failed(errNonsense)
		return
	}
	if !s.window.Ack(m.Renewal, min(ttl, c.ttl)) {
		return
	}
	c.keepBeat(time.Duration(m.BeatNano))
	s.granted, s.ttl = ttl, min(ttl, c.ttl)
	c.trusted()
	c.confirmChecks(m.Renewal)
	if s.asking == 0 || m.Renewal < s.asking {
		return
	}
	s.asking = 0
	if ttl == c.ttl {
		c.answerTTL(nil)
		return
	}
	err := fmt.Errorf("%w: the server leaves the TTL at %v and does not make it %v", ErrInvalid, ttl, c.ttl)
	c.ttl, s.ttl = ttl, ttl
	c.answerTTL(err)
}

func (c *core) answerTTL(err error) {
	for _, call := range c.settings {
		call.answer(nil, err)
	}
	c.settings = nil
}

// abandonTTL forgets a caller that gave up. What it wanted stands.
func (c *core) abandonTTL(call *call) {
	if i := slices.Index(c.settings, call); i >= 0 {
		c.settings = slices.Delete(c.settings, i, i+1)
	}
}
