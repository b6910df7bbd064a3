package locktable

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
)

// closure is a time for which a name is closed, because a lease ended without its
// holder's doing. There are two kinds, and a name may have one of each:
//
//   - a lock-delay closes it to exclusive leases and to slots;
//   - claim-only closes it to every acquire that does not claim. It follows a lease that
//     rides, whose holder may be going on.
//
// Only time ends a closure. A grant to one that claims must not end claim-only:
//
//  1. A rides. Its session expires, and the name is claim-only.
//  2. B claims. It is granted, and ends before its claim has reached the guard.
//  3. C, which does not claim, is let in and reads.
//  4. A writes, which the guard accepts: nothing higher was claimed. C writes over it, and
//     what A wrote is lost.
type closure struct {
	lock *lock
	// left is decided.
	left time.Duration
	// identity is whose lease closed it, for the longest time.
	identity string

	// fresh is a closure that began while another ran, and has no time yet.
	fresh     time.Duration
	timed     bool
	claimOnly bool
	// told: the waiters that it keeps out were told of it.
	told                  bool
	since, until, logNext time.Duration
	// slot is the place on the agenda.
	slot int
}

// closure is where the name's closure of a kind is kept.
func (c *contention) closure(claimOnly bool) **closure {
	if claimOnly {
		return &c.claimOnly
	}
	return &c.closed
}

// shut closes a name for what is left, unless it is closed for longer: how long that is
// only the time tells, which comes with the next Tick.
func (t *Table) shut(l *lock, claimOnly bool, identity string, left time.Duration) {
	at := l.contended().closure(claimOnly)
	if *at == nil {
		*at = &closure{lock: l, claimOnly: claimOnly, identity: identity}
		t.charge(identity, usage{closed: 1})
		if claimOnly {
			t.claimOnly++
			l.keepOut(1)
		}
	}
	c := *at
	if left >= c.left && c.identity != identity {
		// From now on it is closed for the sake of this one.
		t.charge(c.identity, usage{closed: -1})
		t.charge(identity, usage{closed: 1})
		c.identity = identity
	}
	c.left, c.fresh = max(c.left, left), max(c.fresh, left)
	t.due.remove(c.slot)
	t.due.add(0, appointment{closure: c})
}

// reopen ends a closure, if there is one.
func (t *Table) reopen(l *lock, claimOnly bool) {
	at := l.closure(claimOnly)
	c := *at
	if c == nil {
		return
	}
	*at = nil
	t.charge(c.identity, usage{closed: -1})
	t.due.remove(c.slot)
	if claimOnly {
		t.claimOnly--
		l.keepOut(-1)
	}
}

// applyClosure carries out the record of a closure.
func (t *Table) applyClosure(e *recordpb.Event, claimOnly, over bool) {
	l := t.lockOf(e.Name, true)
	t.removeEnded(l)
	if over {
		t.reopen(l, claimOnly)
		t.forget(l)
		return
	}
	left := time.Duration(e.LeftNano)
	if *l.closure(claimOnly) == nil {
		if claimOnly && l.unused() {
			l.slots = e.Slots
		}
		t.shut(l, claimOnly, e.Identity, left)
	}
	(*l.closure(claimOnly)).left = left
}

// slots are those that a name which is claim-only is used with.
func (c *closure) slots() uint32 {
	if c.claimOnly {
		return c.lock.slots
	}
	return 0
}

// kinds are those of the closure's records: how much is left, and that it is over.
func (c *closure) kinds() (closed, over recordpb.Kind) {
	if c.claimOnly {
		return recordpb.Kind_KIND_NAME_CLAIM_ONLY, recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER
	}
	return recordpb.Kind_KIND_NAME_CLOSED, recordpb.Kind_KIND_NAME_OPENED
}

// check handles a closure: what is left of it is logged as silence is, and at its end the
// name is served.
func (c *closure) check(t *Table, now Now, d *Decided) {
	l := c.lock
	// A holder whose end has not been worked off may close the name for longer.
	t.serve(now, l, d)
	switch {
	case *l.closure(c.claimOnly) != c:
		return
	case !c.timed:
		c.timed, c.fresh, c.since, c.until, c.logNext = true, 0, now.High, now.High+c.left, now.High+TenureGrace
	case c.fresh > 0:
		c.until, c.fresh = max(c.until, now.High+c.fresh), 0
	}
	closed, over := c.kinds()
	if c.until <= now.Low {
		t.emit(d, &recordpb.Event{Kind: over, Name: l.name})
		t.serve(now, l, d)
		return
	}
	if c.logNext <= now.Low {
		t.emit(d, &recordpb.Event{
			Kind: closed, Name: l.name, Identity: c.identity, LeftNano: int64(c.until - now.Low), Slots: c.slots(),
		})
		c.logNext = now.High + max(now.High-c.since, time.Millisecond)
	}
	t.due.add(min(c.logNext, c.until), appointment{closure: c})
}

// remains is what is left of a closure; nothing of none.
func (c *closure) remains(now Now) time.Duration {
	switch {
	case c == nil:
		return 0
	case !c.timed:
		return c.left
	}
	return max(c.until-now.High, 0)
}

// bars reports whether a closure of the name keeps an acquire out.
func (l *lock) bars(a *Acquire) bool {
	return l.closed != nil && a.Mode != Shared || l.claimOnly != nil && !a.Claims
}

// closedMessage says what keeps an acquire out of a closed name, and what to do.
func (l *lock) closedMessage(now Now, a *Acquire) string {
	if l.claimOnly != nil && !a.Claims {
		return fmt.Sprintf("%q is %s", l.name, ClaimOnlyText(l.claimOnly.remains(now)))
	}
	return fmt.Sprintf("%q is closed for %v more: its lease ended without its holder's doing", l.name, l.closed.remains(now))
}

// AlsoClosed is what a message that tells of a holder goes on with where the name is
// claim-only, too.
const AlsoClosed = "; the name is also "

// ClaimOnlyText says that a name is claim-only, for how long, why, and what to do.
func ClaimOnlyText(left time.Duration) string {
	return fmt.Sprintf("closed for %v more to acquires that do not claim: a lease that rides through outages ended unreleased, "+
		"and its holder may be going on; claim a guard of the resource before you act, and say so in the acquire (claims)", inWords(left))
}

// inWords is a time as messages have it.
func inWords(left time.Duration) time.Duration {
	if left > 10*time.Second {
		return left.Round(time.Second)
	}
	return left
}

// passedOver reports whether others pass a waiter: it is detached, or it does not claim
// and one of its names is claim-only. In the queues of its other names it is passed by
// everybody: they are not to stand still for as long as a name may be claim-only.
func (w *waiter) passedOver() bool { return w.ref == nil || w.keptOut > 0 }

// keepOut counts, with every waiter of a name that does not claim, that the name has become
// claim-only (1) or is so no longer (-1). It changes who is passed over in all their queues.
func (l *lock) keepOut(n int) {
	l.unbar()
	for _, w := range l.queue {
		if w.acquire.Claims {
			continue
		}
		before := w.keptOut > 0
		w.keptOut += n
		if after := w.keptOut > 0; after == before {
			continue // as when another of its many names is claim-only already
		}
		w.passed = n > 0
		if len(w.locks) > 1 {
			for _, k := range w.locks {
				k.unbar()
			}
		}
	}
}

// waiting is the answer to a request that waits. It says how long the waiter's names are
// closed to it because it does not claim.
func (w *waiter) waiting(now Now) Waiting {
	a := Waiting{Place: w.place}
	if !w.acquire.Claims {
		for _, l := range w.locks {
			if l.claimOnly != nil {
				a.ClaimOnly = max(a.ClaimOnly, l.claimOnly.remains(now), 1)
				w.toldUntil = now.High + a.ClaimOnly
			}
		}
	}
	return a
}

// tellClaimOnly tells the waiters of a name that it has become closed to them, once, and
// serves the other names for which they are passed over from now on. One that waits for
// many names is not told of those that are open again before what it was told of, and is
// not passed over twice: a session may end with a rider of each of them.
func (t *Table) tellClaimOnly(now Now, l *lock, d *Decided) {
	c := l.claimOnly
	if c == nil || c.told {
		return
	}
	c.told = true
	left := max(c.remains(now), 1)
	// Once each: to serve a name may take a walk through its queue.
	seen := map[*lock]bool{l: true}
	for _, w := range l.queue {
		if w.acquire.Claims {
			continue
		}
		if now.High+left > w.toldUntil {
			w.toldUntil = now.High + left
			d.reply(w.ref, w.acquire.Number, Waiting{Place: w.place, ClaimOnly: left})
		}
		if !w.passed {
			continue
		}
		w.passed = false
		for _, k := range w.locks {
			if !seen[k] {
				seen[k] = true
				t.toServe = append(t.toServe, k)
			}
		}
	}
}
