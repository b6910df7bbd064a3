package locktable

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// closureKind says what a closure keeps out. A name may have one closure of each kind.
type closureKind uint8

const (
	// lockDelay keeps exclusive leases and slots out.
	lockDelay closureKind = iota
	// claimOnly keeps every acquire out that does not claim. It follows a lease that may
	// ride, whose holder may be going on.
	claimOnly
)

// records are those of a closure: how much is left of it, and that it is over.
func (k closureKind) records() (left, over recordpb.Kind) {
	if k == claimOnly {
		return recordpb.Kind_KIND_NAME_CLAIM_ONLY, recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER
	}
	return recordpb.Kind_KIND_NAME_CLOSED, recordpb.Kind_KIND_NAME_OPENED
}

// closure is a time for which a name is closed, because a lease ended without its
// holder's doing. Only time ends it. A grant to one that claims must not end claimOnly:
//
//  1. A rides. Its session expires, and the name is claim-only.
//  2. B claims. It is granted, and ends before its claim has reached the guard.
//  3. C, which does not claim, is let in and reads.
//  4. A writes, which the guard accepts: nothing higher was claimed. C writes over it, and
//     what A wrote is lost.
type closure struct {
	lock *lock
	kind closureKind
	// left is decided.
	left time.Duration
	// identity is whose lease closed it, for the longest time.
	identity string

	// fresh is a closure that began while another ran, and has no time yet.
	fresh time.Duration
	timed bool
	// told: the waiters that it keeps out were told of it, as lasting until toldUntil.
	told                  bool
	toldUntil             time.Duration
	since, until, logNext time.Duration
	// slot is the place on the agenda.
	slot int
}

// closure is where the name's closure of a kind is kept.
func (c *contention) closure(kind closureKind) **closure {
	if kind == claimOnly {
		return &c.claimOnly
	}
	return &c.closed
}

// shut closes a name for what is left, unless it is closed for longer: how long that is
// only the time tells, which comes with the next Tick.
func (t *Table) shut(l *lock, kind closureKind, identity string, left time.Duration) {
	at := l.contended().closure(kind)
	if *at == nil {
		*at = &closure{lock: l, kind: kind, identity: identity}
		t.charge(identity, usage{closed: 1})
		if kind == claimOnly {
			t.claimOnly++
			l.countKeptOut(1)
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
func (t *Table) reopen(l *lock, kind closureKind) {
	at := l.closure(kind)
	c := *at
	if c == nil {
		return
	}
	*at = nil
	t.charge(c.identity, usage{closed: -1})
	t.due.remove(c.slot)
	if kind == claimOnly {
		t.claimOnly--
		l.countKeptOut(-1)
	}
}

// applyClosed carries out the record of what is left of a closure.
func (t *Table) applyClosed(e *recordpb.Event, kind closureKind) {
	l := t.lockOf(e.Name, true)
	t.removeEnded(l)
	left := time.Duration(e.LeftNano)
	if *l.closure(kind) == nil {
		if kind == claimOnly && l.unused() {
			l.slots = e.Slots
		}
		t.shut(l, kind, e.Identity, left)
	}
	(*l.closure(kind)).left = left
}

// slots are those that a name which is claim-only is used with.
func (c *closure) slots() uint32 {
	if c.kind == claimOnly {
		return c.lock.slots
	}
	return 0
}

// applyOpened carries out the record of a closure's end.
func (t *Table) applyOpened(e *recordpb.Event, kind closureKind) {
	l := t.lockOf(e.Name, true)
	t.removeEnded(l)
	t.reopen(l, kind)
	t.forget(l)
}

// check handles a closure: what is left of it is logged as silence is, and at its end the
// name is served.
func (c *closure) check(t *Table, now Now, d *Decided) {
	l := c.lock
	// A holder whose end has not been worked off may close the name for longer.
	t.serve(now, l, d)
	switch {
	case *l.closure(c.kind) != c:
		return
	case !c.timed:
		c.timed, c.fresh, c.since, c.until, c.logNext = true, 0, now.High, now.High+c.left, now.High+TenureGrace
	case c.fresh > 0:
		// Not each time: of a name of many slots a rider may end every moment.
		little := c.fresh / toldAgain
		c.until, c.fresh = max(c.until, now.High+c.fresh), 0
		c.told = c.told && c.until-c.toldUntil <= little
		t.serve(now, l, d)
	}
	left, over := c.kind.records()
	if c.until <= now.Low {
		t.emit(d, &recordpb.Event{Kind: over, Name: l.name})
		t.serve(now, l, d)
		return
	}
	if c.logNext <= now.Low {
		t.emit(d, &recordpb.Event{
			Kind: left, Name: l.name, Identity: c.identity, LeftNano: int64(c.until - now.Low), Slots: c.slots(),
		})
		c.logNext = now.High + max(now.High-c.since, time.Millisecond)
	}
	t.due.add(min(c.logNext, c.until), appointment{closure: c})
}

// remains is what is left of a closure; 0: there is none.
func (c *closure) remains(now Now) time.Duration {
	switch {
	case c == nil:
		return 0
	case !c.timed:
		return c.left
	}
	return max(c.until-now.High, 0)
}

// closedTo reports whether a closure of the name keeps an acquire out.
func (l *lock) closedTo(a *Acquire) bool {
	return l.closed != nil && a.Mode != Shared || l.claimOnly != nil && !a.Claims
}

// closedMessage says what keeps an acquire out of a closed name.
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
		"and its holder may be going on; claim a guard of the resource before you act, "+bounds.SayClaims, inWords(left))
}

// inWords is a time as messages have it.
func inWords(left time.Duration) time.Duration {
	if left > 10*time.Second {
		return left.Round(time.Second)
	}
	return left
}

// passedOver reports whether others pass a waiter: it is detached, or it does not claim
// and one of its names is claim-only. The queues of its other names pass it, too: they
// must not stand still for as long as one name is claim-only.
func (w *waiter) passedOver() bool { return w.ref == nil || w.keptOut > 0 }

// countKeptOut notes that the name has become claim-only (1), or is so no longer (-1), with
// every waiter that does not claim. That changes who is passed over in all their queues.
func (l *lock) countKeptOut(n int) {
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

// toldAgain bounds how often waiters are told that a name stays claim-only for longer, in
// the time for which it does.
const toldAgain = 8

// tellClaimOnly tells the waiters of a name that it has become closed to them, or for longer,
// once, and serves the other names for which they are passed over from now on. One that waits for
// many names is not told of those that are open again before what it was told of, and is
// not passed over twice: a session may end with a rider of each of them.
func (t *Table) tellClaimOnly(now Now, l *lock, d *Decided) {
	c := l.claimOnly
	if c == nil || c.told {
		return
	}
	left := max(c.remains(now), 1)
	c.told, c.toldUntil = true, now.High+left
	// Each name once: to serve one may take a walk through its queue.
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
