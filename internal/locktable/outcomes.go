package locktable

import (
	"slices"
	"time"
)

// OutcomeKept is how long a request id is remembered after its lease's end.
const OutcomeKept = 10 * time.Minute

// outcomes remembers what request ids gave: the lease while it lives, that it
// ended for OutcomeKept afterwards.
type outcomes struct {
	live  map[ID]*lease
	ended map[ID]*outcome
	// order holds the ended ones by the time at which they are forgotten; new
	// ones wait in fresh until a time is known.
	fresh, order []*outcome
	waiting      map[ID]*waiter
}

type outcome struct {
	key      ID
	identity string
	args     uint64
	left     time.Duration
	forget   time.Duration
}

func newOutcomes() outcomes {
	return outcomes{live: map[ID]*lease{}, ended: map[ID]*outcome{}, waiting: map[ID]*waiter{}}
}

// n is how many request ids are remembered.
func (o *outcomes) n() int { return len(o.live) + len(o.ended) }

func (o *outcomes) begin(l *lease) { o.live[l.extra.requestKey] = l }

// end notes the end of a lease; left is what remains of OutcomeKept, 0: all.
func (o *outcomes) end(key ID, identity string, args uint64, left time.Duration) {
	delete(o.live, key)
	if left <= 0 || left > OutcomeKept {
		left = OutcomeKept
	}
	x := &outcome{key: key, identity: identity, args: args, left: left}
	o.ended[key] = x
	o.fresh = append(o.fresh, x)
}

// turn gives fresh outcomes their time and forgets those whose time has come, at
// most budget of either.
func (o *outcomes) turn(now Now, budget int, forgotten func(*outcome)) {
	n := min(len(o.fresh), budget)
	for _, x := range o.fresh[:n] {
		x.forget = now.High + x.left
		o.order = append(o.order, x)
	}
	o.fresh = slices.Delete(o.fresh, 0, n)
	for ; budget > 0 && len(o.order) > 0 && o.order[0].forget <= now.Low; budget-- {
		x := o.order[0]
		if o.ended[x.key] == x {
			delete(o.ended, x.key)
		}
		forgotten(x)
		o.order[0] = nil
		o.order = o.order[1:]
	}
}
