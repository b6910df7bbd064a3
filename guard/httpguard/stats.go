package httpguard

import (
	"errors"
	"sync/atomic"

	"github.com/pawlproject/pawl/guard"
)

// Stats are what a gate has counted since it was made, and what it has now.
type Stats struct {
	// Admitted requests were let in under a fence, Passed ones read without one.
	Admitted, Passed uint64
	// Claimed are claims that succeeded.
	Claimed uint64
	// Stale, Foreign, Missing and Malformed requests and claims were refused, and Busy ones
	// were to be repeated.
	Stale, Foreign, Missing, Malformed, Busy uint64
	// Raised counts marks that rose, Drains requests and claims that waited for lower ones.
	Raised, Drains uint64
	// Unknown requests went to the upstream and got no whole answer, Tainted counts how often
	// a resource was closed to higher tokens for that.
	Unknown, Tainted uint64
	// MarksFailed counts questions that the marks did not answer.
	MarksFailed uint64
	// InFlight requests are at the resource now. Waiting ones wait for the marks or for lower
	// ones. Resources are those in memory.
	InFlight, Waiting, Resources int
}

// counts are those of Stats that only rise.
type counts struct {
	admitted, passed, claimed, stale, foreign, missing, malformed, busy,
	raised, drains, unknown, tainted, failures atomic.Uint64
}

// refused counts a request or a claim that was not let in.
func (c *counts) refused(err error) {
	for _, k := range []struct {
		is error
		n  *atomic.Uint64
	}{
		{guard.ErrStale, &c.stale},
		{guard.ErrForeign, &c.foreign},
		{guard.ErrMissing, &c.missing},
		{guard.ErrMalformed, &c.malformed},
		{ErrBusy, &c.busy},
	} {
		if errors.Is(err, k.is) {
			k.n.Add(1)
			return
		}
	}
}

// Stats returns what has been counted so far.
func (g *Gate) Stats() Stats {
	c := &g.counts
	s := Stats{
		Admitted: c.admitted.Load(), Passed: c.passed.Load(), Claimed: c.claimed.Load(),
		Stale: c.stale.Load(), Foreign: c.foreign.Load(), Missing: c.missing.Load(), Malformed: c.malformed.Load(), Busy: c.busy.Load(),
		Raised: c.raised.Load(), Drains: c.drains.Load(), Unknown: c.unknown.Load(), Tainted: c.tainted.Load(),
		MarksFailed: c.failures.Load(),
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Resources, s.InFlight, s.Waiting = len(g.lines), g.flying, g.waiting
	return s
}
