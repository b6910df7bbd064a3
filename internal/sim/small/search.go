package small

import (
	"fmt"
	"io"
)

// Found is what a search came to.
type Found struct {
	States, Transitions, Depth int
	// Whole: every state within the depth was looked at. Complete: what may happen
	// was used up, and a greater depth would find no more.
	Whole, Complete bool
	Violation       *Violation
}

// state is how to reach one: the last action, and the state before it.
type state struct {
	before int32
	depth  uint8
	last   action
}

// Search looks through a world, the nearest states first, at no more than limit
// states; 0: at all. It ends with the first violation.
func Search(b Bounds, limit int) Found {
	p := newPlans(false)
	return search(b, limit, func(w *World) (key, bool) { return w.key(p), false })
}

// search tells states apart by what look makes of them, until it has seen
// enough.
func search(b Bounds, limit int, look func(w *World) (k key, enough bool)) Found {
	found := Found{Whole: true, Complete: true}
	states := []state{{before: -1}}
	first, _ := look(begin(b))
	seen := map[key]struct{}{first: {}}
	for at := 0; at < len(states); at++ {
		if limit > 0 && at >= limit {
			found.Whole, found.Complete = false, false
			break
		}
		found.Depth = int(states[at].depth)
		if found.Depth == b.Depth {
			found.Complete = false
			break
		}
		path := pathTo(states, at)
		w := reach(b, path)
		for i, a := range w.enabled() {
			if i > 0 {
				w = reach(b, path)
			}
			w.do(a)
			w.judge.rests()
			found.Transitions++
			if w.failure != nil {
				found.States, found.Violation = len(states), w.failure
				found.Violation.Steps = story(b, append(path, a))
				return found
			}
			k, enough := look(w)
			if enough {
				found.States, found.Whole, found.Complete = len(states), false, false
				return found
			}
			if _, known := seen[k]; !known {
				seen[k] = struct{}{}
				states = append(states, state{int32(at), states[at].depth + 1, a})
			}
		}
	}
	found.States = len(states)
	return found
}

func pathTo(states []state, at int) []action {
	path := make([]action, states[at].depth)
	for i := len(path) - 1; i >= 0; i-- {
		path[i] = states[at].last
		at = int(states[at].before)
	}
	return path
}

// reach repeats actions from the beginning.
func reach(b Bounds, path []action) *World {
	w := begin(b)
	for _, a := range path {
		w.do(a)
	}
	return w
}

// story tells actions.
func story(b Bounds, path []action) []string {
	w := begin(b)
	var all []string
	for _, a := range path {
		all = append(all, w.tell(a))
		w.do(a)
	}
	return all
}

// WriteStory writes the steps to a violation as a numbered list.
func (v *Violation) WriteStory(out io.Writer) {
	fmt.Fprintf(out, "%s is broken: %s\n", v.Invariant, v.What)
	for i, s := range v.Steps {
		fmt.Fprintf(out, "%4d. %s\n", i+1, s)
	}
}
