package locktable

import (
	"fmt"

	"github.com/pawlproject/pawl/internal/bounds"
)

// usage is what somebody takes up of the cell's limits, or a change of that. The
// identity without a name is everybody, and none is kept of it.
type usage struct {
	sessions, leases, waiters int
	// values and texts are bytes; texts those of names and labels.
	values, texts int
	// closed are the closures of names, and those that may come to be.
	closed int
	// ids counts the request ids that are remembered, and observers the observed names.
	// cancels counts the numbers of requests that must not be granted when they arrive.
	// finished counts those of requests that finished before an earlier one.
	ids, observers, cancels, finished int
}

// closedNames are what Limits.Closed bounds, in messages.
const closedNames = "names that a lock-delay or the end of a rider closes"

func (u *usage) add(more usage) {
	u.sessions += more.sessions
	u.leases += more.leases
	u.waiters += more.waiters
	u.values += more.values
	u.texts += more.texts
	u.closed += more.closed
	u.ids += more.ids
	u.observers += more.observers
	u.cancels += more.cancels
	u.finished += more.finished
}

// negative is what gives back what u takes.
func (u usage) negative() (less usage) {
	return usage{
		-u.sessions, -u.leases, -u.waiters, -u.values, -u.texts, -u.closed, -u.ids, -u.observers, -u.cancels, -u.finished,
	}
}

// charge counts a change, and forgets an identity that has nothing left.
func (t *Table) charge(identity string, more usage) {
	t.total.add(more)
	if identity == "" {
		return
	}
	u := t.usage[identity]
	u.add(more)
	if u == (usage{}) {
		delete(t.usage, identity)
		return
	}
	put(&t.usage, identity, u)
}

// overdrawn says which share of the cell's limits an identity would pass by so
// much more; empty: none.
func (t *Table) overdrawn(identity string, more usage) string {
	if identity == "" {
		return ""
	}
	u := t.usage[identity]
	for _, x := range []struct {
		what            string
		has, more, most int
	}{
		{"sessions", u.sessions, more.sessions, t.limits.Sessions},
		{"leases", u.leases, more.leases, t.limits.Leases},
		{"waiters", u.waiters, more.waiters, t.limits.Waiters},
		{"bytes of values", u.values, more.values, t.limits.ValueBytes},
		{"bytes of names and labels", u.texts, more.texts, t.limits.TextBytes},
		{closedNames, u.closed, more.closed, t.limits.Closed},
		{"remembered request ids", u.ids, more.ids, t.limits.Leases},
		{"observed names", u.observers, more.observers, t.limits.Observers},
		{"cancelled requests", u.cancels, more.cancels, t.limits.Waiters},
		{"requests that are finished before an earlier one", u.finished, more.finished, t.limits.Finished},
	} {
		if x.more > 0 && x.has+x.more > x.most/bounds.IdentityShare {
			return fmt.Sprintf("this identity has %d %s; %d more would pass its share of the cell's", x.has, x.what, x.more)
		}
	}
	return ""
}

// usage is what the request takes up while it waits, and its lease afterwards, beside
// being one.
func (c *Acquire) usage() usage {
	u := usage{values: len(c.Value), texts: len(c.Label)}
	for _, name := range c.Names {
		u.texts += len(name)
	}
	if c.LockDelay > 0 {
		u.closed = len(c.Names)
	}
	if c.RideThrough > 0 {
		u.closed += len(c.Names)
	}
	return u
}

// usage is what the waiter takes up.
func (w *waiter) usage() usage {
	u := w.acquire.usage()
	u.waiters = 1
	return u
}

// usage is what the lease takes up. A request id outlives it.
func (l *lease) usage() usage {
	u := usage{leases: 1, values: len(l.extra.value), texts: len(l.extra.label)}
	l.holds(func(h *hold) { u.texts += len(h.lock.name) })
	if l.extra.delay > 0 {
		u.closed = 1 + len(l.extra.more)
	}
	if l.extra.ride > 0 {
		u.closed++
	}
	return u
}

// cancel notes that a request of a stream must not be granted when it comes, or
// ends the stream that has said so of too many.
func (t *Table) cancel(s *session, number uint64, d *Decided) {
	if _, noted := s.cancelled[number]; noted {
		return
	}
	more := usage{cancels: 1}
	why := t.overdrawn(s.identity, more)
	if why == "" && t.total.cancels >= t.limits.Waiters {
		why = fmt.Sprintf("the cell remembers %d cancelled requests, its limit", t.total.cancels)
	}
	if why != "" {
		d.reply(s.stream, 0, Closed{Reason: Exhausted, Message: why})
		return
	}
	t.charge(s.identity, more)
	put(&s.cancelled, number, struct{}{})
}

// finishCancelled forgets what was cancelled below n.
func (t *Table) finishCancelled(s *session, n uint64) {
	before := len(s.cancelled)
	dropBelow(s.cancelled, s.finishedUp, n)
	t.charge(s.identity, usage{cancels: len(s.cancelled) - before})
}
