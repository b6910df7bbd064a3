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
func explain(ops []op, list []string, mark guard.State) error {
	e := explainer{list: list, mark: mark, seen: map[spot]bool{}}
	for _, o := range ops {
		switch o.outcome {
		case busy:
			continue
		case unknown:
			o.end = math.MaxInt64
		}
		e.ops = append(e.ops, o)
	}
	if len(e.ops) > 64 {
		return errors.New("a history of more than 64 operations")
	}
	if e.search(0, 0, guard.State{}) {
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
	ops  []op
	list []string
	mark guard.State
	seen map[spot]bool
}

// spot is how far a search has come: the operations placed, how much of the
// list they made, and the state they led to.
type spot struct {
	placed uint64
	texts  int
	state  guard.State
}

// search reports whether the operations that are not yet placed can follow.
func (e *explainer) search(placed uint64, texts int, s guard.State) bool {
	at := spot{placed, texts, s}
	if e.seen[at] {
		return false
	}
	e.seen[at] = true

	left := false
	first := int64(math.MaxInt64)
	for i, o := range e.ops {
		if placed>>i&1 == 0 {
			left = left || o.outcome != unknown
			first = min(first, o.end)
		}
	}
	if !left && texts == len(e.list) && s.Cell == e.mark.Cell && s.Seen == e.mark.Seen {
		return true
	}
	for i, o := range e.ops {
		// An operation that began after another ended cannot precede it.
		if placed>>i&1 == 1 || o.begin > first {
			continue
		}
		next, v := guard.Decide(guard.Monotonic, s, o.fence.Mark())
		verdict := decided(v)
		if o.outcome != verdict && (o.outcome != unknown || verdict != done) {
			continue
		}
		n := texts
		if verdict == done && o.text != "" {
			if n == len(e.list) || e.list[n] != o.text {
				continue
			}
			n++
		}
		if e.search(placed|1<<i, n, next) {
			return true
		}
	}
	return false
}
