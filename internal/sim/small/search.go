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

// Key tells states apart.
type Key [16]byte

// Space is what a search explores: states W, and actions A that lead from one to the
// next. For every action the state is built again, by repeating the actions that led to
// it.
type Space[W, A any] struct {
	// Depth bounds the actions after the beginning.
	Depth int
	Begin func() W
	// Enabled lists what can happen next, Do has it happen, Tell says what it is.
	Enabled  func(w W) []A
	Do       func(w W, a A)
	Describe func(w W, a A) string
	// Broken looks at a state and says what is wrong, there or on the way; nil:
	// nothing.
	Broken func(w W) *Violation
	// Close ends what a state holds; nil: it holds nothing.
	Close func(w W)
}

// Search looks through a world, the nearest states first, at no more than limit
// states; 0: at all. It ends with the first violation.
func Search(b Bounds, limit int) Found {
	p := newPlans(false)
	return search(b, limit, func(w *World) (Key, bool) { return w.key(p), false })
}

// search tells states apart by what look makes of them, until it has seen
// enough.
func search(b Bounds, limit int, look func(w *World) (k Key, enough bool)) Found {
	s := Space[*World, action]{
		Depth: b.Depth, Begin: func() *World { return begin(b) },
		Enabled: (*World).enabled, Do: (*World).do, Describe: (*World).describe,
		Broken: func(w *World) *Violation {
			w.judge.checkAtRest()
			return w.failure
		},
	}
	return s.Search(limit, look)
}

// reached is how to reach a state: the last action, and the state before it.
type reached[A any] struct {
	before int32
	depth  uint8
	last   A
}

// Search looks through the space likewise. look tells states apart, until it has
// seen enough.
func (s Space[W, A]) Search(limit int, look func(w W) (k Key, enough bool)) Found {
	found := Found{Whole: true, Complete: true}
	steps := []reached[A]{{before: -1}}
	seen := map[Key]struct{}{}
	see := func(w W) (isNew, enough bool) {
		k, enough := look(w)
		_, known := seen[k]
		seen[k] = struct{}{}
		return !known, enough
	}
	first := s.Begin()
	see(first)
	s.close(first)
	for at := 0; at < len(steps); at++ {
		if limit > 0 && at >= limit {
			found.Whole, found.Complete = false, false
			break
		}
		found.Depth = int(steps[at].depth)
		if found.Depth == s.Depth {
			found.Complete = false
			break
		}
		path := pathTo(steps, at)
		w := s.replay(path)
		next := s.Enabled(w)
		if len(next) == 0 {
			s.close(w)
		}
		for i, a := range next {
			if i > 0 {
				w = s.replay(path)
			}
			s.Do(w, a)
			found.Transitions++
			if v := s.Broken(w); v != nil {
				s.close(w)
				found.States, found.Violation = len(steps), v
				found.Violation.Steps = s.describePath(append(path, a))
				return found
			}
			isNew, enough := see(w)
			s.close(w)
			if enough {
				found.States, found.Whole, found.Complete = len(steps), false, false
				return found
			}
			if isNew {
				steps = append(steps, reached[A]{int32(at), steps[at].depth + 1, a})
			}
		}
	}
	found.States = len(steps)
	return found
}

func pathTo[A any](steps []reached[A], at int) []A {
	path := make([]A, steps[at].depth)
	for i := len(path) - 1; i >= 0; i-- {
		path[i] = steps[at].last
		at = int(steps[at].before)
	}
	return path
}

// replay repeats actions from the beginning.
func (s Space[W, A]) replay(path []A) W {
	w := s.Begin()
	for _, a := range path {
		s.Do(w, a)
	}
	return w
}

// describePath tells actions.
func (s Space[W, A]) describePath(path []A) []string {
	w := s.Begin()
	defer s.close(w)
	var all []string
	for _, a := range path {
		all = append(all, s.Describe(w, a))
		s.Do(w, a)
	}
	return all
}

func (s Space[W, A]) close(w W) {
	if s.Close != nil {
		s.Close(w)
	}
}

// WriteSteps writes the steps to a violation as a numbered list.
func (v *Violation) WriteSteps(out io.Writer) {
	fmt.Fprintf(out, "%s is broken: %s\n", v.Invariant, v.What)
	for i, s := range v.Steps {
		fmt.Fprintf(out, "%4d. %s\n", i+1, s)
	}
}
