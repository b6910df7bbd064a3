package guardtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pawlproject/pawl/guard"
)

// op is one operation of a history. begin and end are readings of a counter
// that all callers share: an operation that ended before another began came
// before it.
type op struct {
	fence      guard.Fence
	text       string // empty: a claim
	begin, end int64
	outcome    outcome
	err        error
}

func (o op) String() string {
	doing := "claim"
	if o.text != "" {
		doing = "append " + o.text
	}
	return fmt.Sprintf("[%d,%d] %s, %v: %s", o.begin, o.end, doing, o.fence, o.outcome)
}

// explain returns nil if some order of the operations agrees with real time, gives
// every operation the verdict that its caller received, and leads to the list and the
// mark that were found. An operation whose outcome is unknown may have taken effect at
// any time after its beginning, or never; a busy one did nothing.
//
// With raisesFirst an operation is two decisions, the first of which raises the mark, and
// maybe no more than that: then it came too late, was busy, or its outcome is unknown. The
// second lets it take effect, and only while none of a higher token has.
func explain(ops []op, list []string, mark guard.State, raisesFirst bool) error {
	e := explainer{list: list, mark: mark, raisesFirst: raisesFirst, seen: map[spot]bool{}}
	for _, o := range ops {
		switch {
		case o.outcome == busy && !raisesFirst:
			continue
		case o.outcome == busy, o.outcome == unknown:
			o.end = math.MaxInt64
		}
		e.ops = append(e.ops, o)
	}
	if len(e.ops) > 64 {
		return errors.New("a history of more than 64 operations")
	}
	if e.search(spot{}) {
		return nil
	}
	slices.SortFunc(ops, func(a, b op) int { return int(a.begin - b.begin) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "\n\t%v", o)
	}
	return fmt.Errorf("no order of decisions explains the list %q and the mark %d of this history:%s",
		list, mark.Seen, b.String())
}

type explainer struct {
	ops         []op
	list        []string
	mark        guard.State
	raisesFirst bool
	seen        map[spot]bool
}

// spot is how far a search has come: the operations placed, how much of the
// list they made, and the state they led to. With raisesFirst: the operations
// that have raised the mark, and the highest token that has taken effect.
type spot struct {
	placed, raised uint64
	texts          int
	state          guard.State
	done           guard.Token
}

// search reports whether the operations that are not yet placed can follow.
func (e *explainer) search(at spot) bool {
	if e.seen[at] {
		return false
	}
	e.seen[at] = true

	left := false
	first := int64(math.MaxInt64)
	for i, o := range e.ops {
		if at.placed>>i&1 == 0 {
			left = left || o.outcome != unknown && o.outcome != busy
			first = min(first, o.end)
		}
	}
	if !left && at.texts == len(e.list) && at.state.Cell == e.mark.Cell && at.state.Seen == e.mark.Seen {
		return true
	}
	for i, o := range e.ops {
		// An operation that began after another ended cannot precede it.
		if at.placed>>i&1 == 1 || o.begin > first {
			continue
		}
		if next, ok := e.raise(at, i); ok && e.search(next) {
			return true
		}
		if next, ok := e.place(at, i); ok && e.search(next) {
			return true
		}
	}
	return false
}

// raise lets an operation raise the mark and do nothing else.
func (e *explainer) raise(at spot, i int) (spot, bool) {
	if !e.raisesFirst || at.raised>>i&1 == 1 {
		return at, false
	}
	next, v := guard.Decide(guard.Monotonic, at.state, e.ops[i].fence.Mark())
	at.raised |= 1 << i
	at.state = next
	return at, decided(v) == done
}

// place lets an operation get its outcome.
func (e *explainer) place(at spot, i int) (spot, bool) {
	o := e.ops[i]
	next, v := guard.Decide(guard.Monotonic, at.state, o.fence.Mark())
	verdict := decided(v)
	if e.raisesFirst && at.raised>>i&1 == 1 && at.done <= o.fence.Token && o.outcome != stale {
		next, verdict = at.state, done
	} else if e.raisesFirst && verdict == done {
		return at, false
	}
	if o.outcome != verdict && (o.outcome != unknown || verdict != done) {
		return at, false
	}
	at.placed |= 1 << i
	at.state = next
	if verdict != done {
		return at, true
	}
	at.done = max(at.done, o.fence.Token)
	if o.text != "" {
		if at.texts == len(e.list) || e.list[at.texts] != o.text {
			return at, false
		}
		at.texts++
	}
	return at, true
}
