package session

import (
	"maps"
	"slices"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
)

const (
	// WatchesMax bounds the names that a client observes; the server's limit is
	// the same, and passing that one would end the stream.
	WatchesMax = 1000
	// watchesAsked bounds the observations that are requested and not yet answered.
	// With values of 64 KiB each, answers to all at once would exceed what the server
	// keeps for a slow reader.
	watchesAsked = 32
)

// watch is the observation of one name, for all its observers.
type watch struct {
	name string
	// observers are in no order, each at the place that at tells.
	observers []Ref
	at        map[Ref]int
	// asked: the server was asked on the present stream; live: it has answered.
	asked, live bool
	queued      bool
	leader      *Leader
}

func (w *watch) add(o Ref) {
	w.at[o] = len(w.observers)
	w.observers = append(w.observers, o)
}

// remove takes an observer out; false: there is none.
func (w *watch) remove(o Ref) bool {
	i, known := w.at[o]
	if !known {
		return false
	}
	last := len(w.observers) - 1
	w.observers[i] = w.observers[last]
	w.at[w.observers[i]] = i
	w.observers[last] = nil
	w.observers = w.observers[:last]
	delete(w.at, o)
	return true
}

// watches are the client's observations.
type watches struct {
	of map[string]*watch
	// observed is how many have an observer. Those that have none are given up at
	// the end of the turn, and take no room from one that comes in the same turn.
	observed int
	// todo are those that have to be asked for, or given up.
	todo []*watch
	// open is how many are asked for and not answered.
	open int
}

// queue notes that a watch has to be asked for, or given up.
func (a *watches) queue(w *watch) {
	if !w.queued {
		w.queued = true
		a.todo = append(a.todo, w)
	}
}

func (a *watches) names() []string { return slices.Sorted(maps.Keys(a.of)) }

// Observe reports a name's holder to an observer, now and at every change.
func (m *Machine) Observe(o Ref, name string) {
	if m.closing || m.finished {
		m.effect(Effect{Kind: EndWatch, Ref: o, Cause: closed})
		return
	}
	w := m.watches.of[name]
	if w == nil || len(w.observers) == 0 {
		if n := m.watches.observed; n >= WatchesMax {
			m.effect(Effect{Kind: EndWatch, Ref: o, Cause: &Cause{Kind: TooManyWatches, Names: n}})
			return
		}
		m.watches.observed++
	}
	if w == nil {
		w = &watch{name: name, at: map[Ref]int{}}
		m.watches.of[name] = w
		m.watches.queue(w)
	}
	w.add(o)
	if w.live {
		m.effect(Effect{Kind: PublishLeader, Ref: o, Leader: w.leader})
	}
}

// Unobserve forgets an observer.
func (m *Machine) Unobserve(o Ref, name string) {
	w := m.watches.of[name]
	if w == nil || !w.remove(o) {
		return
	}
	if len(w.observers) == 0 {
		m.watches.observed--
		m.watches.queue(w)
	}
}

// syncWatches requests new observations and ends those without observers. It runs at
// the end of a turn, so that an observer that leaves and one that comes in the same
// turn share one observation.
func (m *Machine) syncWatches() {
	all := &m.watches
	wanted := all.todo[:0]
	for _, w := range all.todo {
		switch {
		case len(w.observers) == 0:
			m.giveUpWatch(w)
		case w.asked:
			w.queued = false
		default:
			wanted = append(wanted, w)
		}
	}
	n := 0
	if m.conn.state == connectionUp {
		n = min(len(wanted), watchesAsked-all.open)
	}
	for _, w := range wanted[:n] {
		w.queued, w.asked = false, true
		m.outgoing.observe = append(m.outgoing.observe, w.name)
	}
	all.open += n
	rest := append(all.todo[:0], wanted[n:]...)
	clear(all.todo[len(rest):])
	all.todo = rest
}

func (m *Machine) giveUpWatch(w *watch) {
	delete(m.watches.of, w.name)
	if !w.asked {
		return
	}
	m.outgoing.unobserve = append(m.outgoing.unobserve, w.name)
	if !w.live {
		m.watches.open--
	}
}

// unwatch notes that a new stream observes nothing: all is to be asked for
// again. What observers were told stands until a server says otherwise.
func (m *Machine) unwatch() {
	all := &m.watches
	all.todo, all.open = all.todo[:0], 0
	for _, name := range all.names() {
		w := all.of[name]
		w.asked, w.live, w.queued = false, false, false
		all.queue(w)
	}
}

func every(*watch) bool { return true }

// endWatches tells the observers of some names that it is over.
func (m *Machine) endWatches(why *Cause, which func(*watch) bool) {
	for _, name := range m.watches.names() {
		if w := m.watches.of[name]; which(w) {
			m.endWatch(w, why)
		}
	}
}

func (m *Machine) endWatch(w *watch, why *Cause) {
	for _, o := range w.observers {
		m.effect(Effect{Kind: EndWatch, Ref: o, Cause: why})
	}
	if len(w.observers) > 0 {
		m.watches.observed--
	}
	w.observers = nil
	clear(w.at)
	m.watches.queue(w)
}

// observed handles what the server tells of a name.
func (m *Machine) observed(x *linkpb.Observed) {
	w := m.watches.of[x.Name]
	if w == nil || !w.asked {
		return
	}
	if x.Reason != linkpb.Reason_REASON_UNSPECIFIED {
		if !w.live {
			m.watches.open--
		}
		w.asked, w.live = false, false // there is nothing to be given up
		m.endWatch(w, Refuse(x.Reason, x.Message))
		return
	}
	if !w.live {
		w.live = true
		m.watches.open--
	}
	w.leader = &Leader{Token: guard.Token(x.Token), Value: x.Value, Label: x.Label}
	if w.leader.Token.Valid() {
		m.highest = max(m.highest, w.leader.Token)
	}
	for _, o := range w.observers {
		m.effect(Effect{Kind: PublishLeader, Ref: o, Leader: w.leader})
	}
}
