package linear

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// forever is the return of what may still take effect; curtain is after
// everything that returned.
const (
	curtain = math.MaxInt64 - 1
	forever = math.MaxInt64
)

// mode is how a name is held.
type mode uint8

const (
	exclusive mode = iota
	shared
	slotted
)

func (m mode) String() string { return [...]string{"exclusive", "shared", "slot"}[m] }

// slotsMax is the n of every slotted acquire that does not say another.
const slotsMax = 2

type stepKind uint8

const (
	// stepGrant: a lease begins, and a client was told of it.
	stepGrant stepKind = iota
	// stepUnseen: a lease begins that nobody was told of but those refused by it.
	stepUnseen
	// stepRelease: a lease is held, and ends.
	stepRelease
	// stepEnd: a lease that was granted ends, if it has not before.
	stepEnd
	// stepMayEnd: a lease ends, or never does.
	stepMayEnd
	// stepHeld: a lease is held.
	stepHeld
	// stepGone: a lease that was granted is not held.
	stepGone
	// stepCurtain: the history is over, what has not happened never will.
	stepCurtain
)

// step is one operation on the lock.
type step struct {
	kind  stepKind
	mode  mode
	token uint64
	fence uint64
	slot  int
	slots int
	// told is what the caller called and was told, for the drawing.
	told string
}

// grip is one lease that holds the name.
type grip struct {
	token  uint64
	mode   mode
	slot   int
	unseen bool
}

// lock is the state of one name. It is never changed, only replaced.
type lock struct {
	// grips in the order of their tokens.
	grips []grip
	// highest token granted, and the highest that was exclusive.
	highest, writer uint64
	// run is the fence of the present run of readers.
	run  uint64
	over bool
}

// model is the lock as porcupine wants it.
var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) { return state.(lock).take(input.(step)) },
	Equal: func(a, b any) bool {
		x, y := a.(lock), b.(lock)
		return x.highest == y.highest && x.writer == y.writer && x.run == y.run && x.over == y.over && slices.Equal(x.grips, y.grips)
	},
	Hash: func(state any) uint64 {
		l := state.(lock)
		h := l.highest
		for _, g := range l.grips {
			h = h*31 + g.token
		}
		return h
	},
	DescribeOperation: func(input, _ any) string { return input.(step).told },
	DescribeState:     func(state any) string { return state.(lock).String() },
}

func (l lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "highest %d", l.highest)
	for _, g := range l.grips {
		fmt.Fprintf(&b, ", %v %d", g.mode, g.token)
		if g.unseen {
			b.WriteString(" (ghost)")
		}
	}
	return b.String()
}

// take does a step if the lock can; reports whether it could.
func (l lock) take(s step) (bool, lock) {
	switch s.kind {
	case stepGrant, stepUnseen:
		if s.token <= l.highest || !l.admits(s) {
			return false, l
		}
		return true, l.with(s)
	case stepRelease:
		return l.holds(s.token), l.without(s.token)
	case stepEnd:
		return s.token <= l.highest, l.without(s.token)
	case stepMayEnd:
		// Only what is held can end: of the many orders in which nothing
		// happens, one is enough.
		return l.over || l.holds(s.token), l.without(s.token)
	case stepHeld:
		return l.holds(s.token), l
	case stepGone:
		return s.token <= l.highest && !l.holds(s.token), l
	case stepCurtain:
		l.over = true
		return true, l
	default:
		panic("unknown step")
	}
}

func (l lock) holds(token uint64) bool {
	return slices.ContainsFunc(l.grips, func(g grip) bool { return g.token == token })
}

func (l lock) without(token uint64) lock {
	l.grips = slices.DeleteFunc(slices.Clone(l.grips), func(g grip) bool { return g.token == token })
	return l
}

// admits reports whether what is held goes together with a new grant. A ghost
// may have gone unseen: it excludes nobody.
func (l lock) admits(s step) bool {
	known := slices.DeleteFunc(slices.Clone(l.grips), func(g grip) bool { return g.unseen })
	for _, g := range known {
		switch {
		case g.mode != s.mode || s.mode == exclusive:
			return false
		case s.mode == slotted && s.kind == stepGrant && g.slot == s.slot:
			return false
		}
	}
	switch {
	case s.mode == slotted && len(known) >= s.slots:
		return false
	case s.kind == stepUnseen:
		return true
	case s.mode == slotted:
		return 1 <= s.slot && s.slot <= s.slots && s.fence == s.token
	case s.mode == exclusive:
		return s.fence == s.token
	case len(known) > 0:
		return s.fence == l.run
	default:
		// A reader that nobody was told of may have begun the run.
		return l.writer < s.fence && s.fence <= s.token
	}
}

// with is the lock after a grant; ghosts that do not go together with it have
// gone.
func (l lock) with(s step) lock {
	known := 1
	for _, g := range l.grips {
		if !g.unseen {
			known++
		}
	}
	var all []grip
	for _, g := range l.grips {
		if !g.unseen || g.mode == s.mode && (s.mode == shared || s.mode == slotted && known < s.slots) {
			all = append(all, g)
		}
	}
	l.grips = append(all, grip{token: s.token, mode: s.mode, slot: s.slot, unseen: s.kind == stepUnseen})
	l.highest = s.token
	if s.mode == exclusive && s.kind == stepGrant {
		l.writer = s.token
	}
	if s.mode == shared && s.kind == stepGrant {
		l.run = s.fence
	}
	return l
}
