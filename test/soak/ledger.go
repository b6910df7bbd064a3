package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// moment is a time since the run began.
type moment = time.Duration

const never = moment(math.MaxInt64)

// ledger judges what clients saw. Events may be added in any order, each with the
// moment for which it is known; no verdict depends on that order. It is not safe for
// use by several goroutines.
type ledger struct {
	leases map[uint64]*lease
	// open are the leases of a name that are not known to have ended, top is the
	// one with the highest token.
	open map[string][]*lease
	top  map[string]*lease
	// highest is the highest token that was acknowledged, listed what it was
	// when the last listing began.
	highest, listed uint64

	lost, repeated, revived int
	// findings describes the first of them.
	findings []string
	// granted and released count acknowledgements; survived counts leases that a
	// listing had to show and did.
	granted, released, survived int
}

// lease is what is known of one token.
type lease struct {
	token uint64
	name  string
	// acked: somebody was told that it is theirs.
	acked bool
	// from is a moment by which it was granted.
	from moment
	// promised is until when its holder may count on it, letGo when that one
	// began to release it.
	promised, letGo moment
	// gone is a moment by which it had ended, shown one after which it was held
	// (-1: it was not seen).
	gone, shown moment
	// judged: it was counted as lost or as revived.
	judged bool
}

func newLedger() *ledger {
	return &ledger{leases: map[uint64]*lease{}, open: map[string][]*lease{}, top: map[string]*lease{}}
}

// floor is what the token of a request that begins now must be above.
func (l *ledger) floor() uint64 { return l.highest }

// grant takes in that a request was answered with a lease by now, whose holder
// may count on it until promised. The floor is that of the request's beginning.
func (l *ledger) grant(name string, token, floor uint64, now, promised moment) {
	x := l.leases[token]
	switch {
	case x != nil && x.acked:
		l.find(&l.repeated, "token %d of %q was granted before, for %q", token, name, x.name)
		return
	case x != nil && x.name != name:
		l.find(&l.repeated, "token %d of %q was seen before, on %q", token, name, x.name)
		return
	case x == nil:
		x = l.meet(name, token, now)
	}
	if token <= floor {
		l.find(&l.repeated, "token %d of %q is not above %d, which was acknowledged before it was asked for", token, name, floor)
	}
	l.granted++
	x.acked = true
	x.from = min(x.from, now)
	x.promised = max(x.promised, promised)
	l.highest = max(l.highest, token)
	l.judge(x)
}

// meet takes in a token that was not known, held by now at the latest. What the
// name was held under before has ended.
func (l *ledger) meet(name string, token uint64, now moment) *lease {
	x := &lease{token: token, name: name, from: now, letGo: never, gone: never, shown: -1}
	l.leases[token] = x
	if top := l.top[name]; top != nil && top.token > token {
		// Its successor became known first.
		x.gone = top.from
	} else {
		l.top[name] = x
		for _, earlier := range l.open[name] {
			earlier.gone = min(earlier.gone, now)
			l.judge(earlier)
		}
		l.open[name] = append(l.open[name][:0], x)
	}
	return x
}

// promise takes in until when the holder of a lease may count on it.
func (l *ledger) promise(token uint64, until moment) {
	if x := l.leases[token]; x != nil {
		x.promised = max(x.promised, until)
		l.judge(x)
	}
}

// release takes in that a holder begins to release its lease: from now on it
// may end at any moment.
func (l *ledger) release(token uint64, now moment) {
	if x := l.leases[token]; x != nil {
		x.letGo = min(x.letGo, now)
	}
}

// end takes in that a lease had ended by now: its release was acknowledged, or
// the server said that there is no such lease.
func (l *ledger) end(token uint64, now moment) {
	if x := l.leases[token]; x != nil {
		x.gone = min(x.gone, now)
		l.shut(x)
		l.judge(x)
	}
}

// withdraw notes that a holder was told that its lease has ended. That is a loss while
// the holder could rely on the lease, whether or not it had begun to release it. Later
// it is correct, and the server may keep the lease a little longer.
func (l *ledger) withdraw(token uint64, now moment) {
	if x := l.leases[token]; x != nil && now < x.promised && !x.judged {
		x.judged = true
		l.find(&l.lost, "token %d of %q was taken from its holder at %v, who had it until %v", x.token, x.name, now, x.promised)
		l.end(token, now)
	}
}

// see takes in that a lease was held at some moment after since.
func (l *ledger) see(token uint64, since moment) {
	if x := l.leases[token]; x != nil {
		x.shown = max(x.shown, since)
		l.judge(x)
	}
}

// listing is a look at everything that is held.
type listing struct {
	began moment
	// before is the highest token that was acknowledged when the listing before
	// this one began, highest when this one did.
	before, highest uint64
}

// beginListing begins a listing.
func (l *ledger) beginListing(now moment) listing {
	return listing{began: now, before: l.listed, highest: l.highest}
}

// list compares a complete listing, which was answered before now, with the ledger:
// shown has the tokens under which each name is held. Listings do not overlap.
func (l *ledger) list(look listing, shown map[string][]uint64, now moment) {
	l.listed = look.highest
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		tokens := shown[name]
		if len(tokens) > 1 {
			l.find(&l.revived, "%q is held under %d tokens at once: %d", name, len(tokens), tokens)
		}
		for _, token := range tokens {
			x := l.leases[token]
			switch {
			case x == nil:
				// Its caller was not told, or not yet. The listing before did not
				// show it, so it was granted since.
				l.meet(name, token, now)
				if token <= look.before {
					l.find(&l.repeated, "token %d of %q is new and not above %d", token, name, look.before)
				}
			case x.name != name:
				l.find(&l.repeated, "token %d of %q was seen before, on %q", token, name, x.name)
			}
			l.see(token, look.began)
		}
	}
	for name, open := range l.open {
		for _, x := range slices.Clone(open) {
			switch {
			case x.from >= look.began:
			case !slices.Contains(shown[name], x.token):
				l.end(x.token, now)
			case x.acked && x.letGo == never && now < x.promised:
				l.survived++
			}
		}
	}
}

// shut takes a lease from those that may be held.
func (l *ledger) shut(x *lease) {
	l.open[x.name] = slices.DeleteFunc(l.open[x.name], func(o *lease) bool { return o == x })
}

// judge looks whether what is known of a lease goes together.
func (l *ledger) judge(x *lease) {
	switch {
	case x.judged:
	case x.acked && x.gone < min(x.promised, x.letGo):
		x.judged = true
		l.find(&l.lost, "token %d of %q had ended by %v; its holder had it until %v", x.token, x.name, x.gone, min(x.promised, x.letGo))
	case x.shown > x.gone:
		x.judged = true
		l.find(&l.revived, "token %d of %q had ended by %v and was held after %v", x.token, x.name, x.gone, x.shown)
	}
}

// findingsMax bounds what is described; all is counted.
const findingsMax = 20

func (l *ledger) find(count *int, format string, args ...any) {
	*count++
	if len(l.findings) < findingsMax {
		l.findings = append(l.findings, fmt.Sprintf(format, args...))
	}
}
