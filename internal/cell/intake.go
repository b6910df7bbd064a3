package cell

import (
	"sync"

	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// turnMax bounds the commands of each kind that one turn takes.
	turnMax = 8192
	// queuedMax bounds the acquires that wait to be decided, lineMax those of
	// one stream. Beyond either an acquire is refused as exhausted.
	queuedMax = 1 << 16
	lineMax   = 1 << 14
	// floodMin is how many urgent commands make streams wait before they are read
	// again.
	floodMin = 2 * turnMax
)

// intake is where commands gather. Two ways lead in: urgent ones (renew,
// release, cancel, close, reads) are never refused; acquires stand in one line
// per stream, served round-robin, and meet admission.
type intake struct {
	ready chan struct{}

	mu     sync.Mutex
	shut   bool
	urgent []locktable.Command
	// relieved, when there is one, is closed when urgent is no flood any more.
	relieved chan struct{}
	lines    []*line
	queued   int
	spare    []locktable.Command
}

// line is the acquires of one stream, or of everybody without one.
type line struct {
	items  []locktable.Command
	listed bool
}

func newIntake() *intake { return &intake{ready: make(chan struct{}, 1)} }

// add takes in urgent commands; false: the intake is shut.
func (in *intake) add(c ...locktable.Command) bool {
	in.mu.Lock()
	if in.shut {
		in.mu.Unlock()
		return false
	}
	in.urgent = append(in.urgent, c...)
	in.mu.Unlock()
	in.wake()
	return true
}

// acquire takes in acquires of a line. It returns those for which there is no
// room, and false when the intake is shut.
func (in *intake) acquire(l *line, all []locktable.Acquire) (refused []locktable.Acquire, open bool) {
	in.mu.Lock()
	if in.shut {
		in.mu.Unlock()
		return nil, false
	}
	room := min(queuedMax-in.queued, lineMax-len(l.items), len(all))
	room = max(room, 0)
	for i := range all[:room] {
		l.items = append(l.items, all[i])
		if x, unary := all[i].Ref.(*call); unary {
			x.queued = true
		}
	}
	in.queued += room
	if room > 0 && !l.listed {
		l.listed = true
		in.lines = append(in.lines, l)
	}
	in.mu.Unlock()
	if room > 0 {
		in.wake()
	}
	return all[room:], true
}

// withdraw takes back an acquire that has not been decided; false: it has been,
// or is about to be, and an urgent Cancel comes after it.
func (in *intake) withdraw(x *call) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	x.withdrawn = x.queued
	return x.queued
}

func (in *intake) wake() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

// take empties the intake into two lists, as far as a turn may: at most turnMax
// urgent commands and, unless acquires are held back, as many acquires.
// complete: no urgent command is left. The lists are valid until the next take.
func (in *intake) take(held bool, acquires []locktable.Command) (urgent, taken []locktable.Command, complete bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	clear(in.spare)
	if complete = len(in.urgent) <= turnMax; complete {
		urgent = in.urgent
		in.urgent, in.spare = in.spare[:0], urgent
	} else {
		urgent = append(urgent, in.urgent[:turnMax]...)
		in.urgent = append(in.urgent[:0], in.urgent[turnMax:]...)
	}
	if len(in.urgent) < floodMin {
		in.relieve()
	}
	taken = acquires[:0]
	if !held {
		taken = in.round(taken)
	}
	if len(in.urgent) > 0 || len(in.lines) > 0 && !held {
		in.wake()
	}
	return urgent, taken, complete
}

// round serves the lines in turn, a portion from each, and puts those that are
// not empty behind the others.
func (in *intake) round(taken []locktable.Command) []locktable.Command {
	n := len(in.lines)
	each := max(turnMax/max(n, 1), 16)
	for ; n > 0 && len(taken) < turnMax; n-- {
		l := in.lines[0]
		in.lines = in.lines[1:]
		part := min(len(l.items), each, turnMax-len(taken))
		for _, c := range l.items[:part] {
			if x, unary := refOf(c).(*call); unary {
				if x.queued = false; x.withdrawn {
					continue
				}
			}
			taken = append(taken, c)
		}
		in.queued -= part
		if part == len(l.items) {
			clear(l.items)
			l.items, l.listed = l.items[:0], false
			continue
		}
		l.items = l.items[part:]
		in.lines = append(in.lines, l)
	}
	return taken
}

func refOf(c locktable.Command) locktable.Ref {
	if a, ok := c.(locktable.Acquire); ok {
		return a.Ref
	}
	return nil
}

// close shuts the intake and drops what is in it.
func (in *intake) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.shut = true
	in.urgent, in.lines, in.queued = nil, nil, 0
	in.relieve()
}

// relief is nil while there is no flood of urgent commands; otherwise it is
// closed at its end.
func (in *intake) relief() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.urgent) < floodMin {
		return nil
	}
	if in.relieved == nil {
		in.relieved = make(chan struct{})
	}
	return in.relieved
}

func (in *intake) relieve() {
	if in.relieved != nil {
		close(in.relieved)
		in.relieved = nil
	}
}
