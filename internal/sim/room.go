package sim

import (
	"context"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// Usage is that of a store with a quota, of which little is left while it is
// tight. Nothing else shows that: writes go on.
func (x cable) Usage(context.Context) (store.Usage, error) {
	u := store.Usage{Used: 1, Quota: 100}
	if x.server.world.disk.tight {
		u.Used = 90
	}
	return u, nil
}

// checkUsage has the server see how full the store is, as often as cell's loop does.
func (s *server) checkUsage() {
	if !s.serving {
		return
	}
	u, err := s.tenure.Usage(s.ctx)
	if tight := err == nil && u.Tight(); tight != s.tight {
		s.tight, s.tightSince = tight, s.world.now
		s.core.SetTight(tight)
	}
	s.world.after(&s.process, max(s.world.plan.ActiveTTL/10, 100*time.Millisecond), s.checkUsage)
}

// tight: while there is little room, what is acquired is refused, and nothing
// else is.
func (r *referee) tight(s *server, reply *locktable.Reply, sent time.Duration) {
	acquire, other := false, false
	switch to := reply.To.(type) {
	case *call:
		var a locktable.Acquire
		if a, acquire = to.command.(locktable.Acquire); acquire && a.RequestKey != (locktable.ID{}) {
			// A repeat is no new one.
			sent = r.keyed[a.RequestKey]
		}
		_, opens := to.command.(locktable.OpenSession)
		other = !acquire && !(opens && s.wasFull(sent))
	case *stream:
		for _, q := range to.client.requests {
			if q.number == reply.Number && to.client.stream == to {
				acquire, other = q.lease == nil, q.lease != nil
			}
		}
	}
	switch a := reply.Answer.(type) {
	case locktable.Granted, locktable.Waiting:
		if acquire && s.tight && sent > s.tightSince {
			r.world.fail("room", "%s takes an acquire of %v, and has little room since %v", s.name, sent, s.tightSince)
		}
	case locktable.Refused:
		if a.Reason != locktable.Exhausted {
			return
		}
		if r.tally.Exhausted++; other {
			r.world.fail("room", "%s refuses for want of room what is no acquire", s.name)
		}
	}
}
