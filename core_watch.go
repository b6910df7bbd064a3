package pawl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
)

const (
	// watchesMax bounds the names that a client observes; the server's limit is
	// the same, and passing that one would end the stream.
	watchesMax = 1000
	// watchesAsked bounds the observations that are asked for and not yet
	// answered. With values of 64 KiB each, answers to all of them at once would
	// pass what the server keeps for a slow reader.
	watchesAsked = 32
)

// watch is the observation of one name, for all its observers.
type watch struct {
	name      string
	observers map[*observer]bool
	// asked: the server was asked on the present stream; live: it has answered.
	asked, live bool
	queued      bool
	leader      Leader
}

// watches are the client's observations.
type watches struct {
	of map[string]*watch
	// observed is how many have an observer. Those that have none are given up at
	// the end of the turn, and take no room from who comes in the same one.
	observed int
	// todo are those that have to be asked for, or given up.
	todo []*watch
	// open is how many are asked for and not answered.
	open int
}

// queue notes that a watch has to be looked at.
func (a *watches) queue(w *watch) {
	if !w.queued {
		w.queued = true
		a.todo = append(a.todo, w)
	}
}

func (a *watches) names() []string { return slices.Sorted(maps.Keys(a.of)) }

func (c *core) observe(o *observer) {
	if c.closing || c.finished {
		o.end(ErrClosed)
		return
	}
	w := c.watches.of[o.name]
	if w == nil || len(w.observers) == 0 {
		if n := c.watches.observed; n >= watchesMax {
			o.end(fmt.Errorf("%w: this client observes %d names", ErrExhausted, n))
			return
		}
		c.watches.observed++
	}
	if w == nil {
		w = &watch{name: o.name, observers: map[*observer]bool{}}
		c.watches.of[o.name] = w
		c.watches.queue(w)
	}
	w.observers[o] = true
	if w.live {
		o.tell(w.leader)
	}
}

func (c *core) unobserve(o *observer) {
	w := c.watches.of[o.name]
	if w == nil || !w.observers[o] {
		return
	}
	delete(w.observers, o)
	if len(w.observers) == 0 {
		c.watches.observed--
		c.watches.queue(w)
	}
}

// tend asks for what is to be observed and gives up what nobody observes. It
// comes at the end of a turn, so that who leaves and who comes in the same turn
// make one observation.
func (c *core) tend() {
	all := &c.watches
	wanted := all.todo[:0]
	for _, w := range all.todo {
		switch {
		case len(w.observers) == 0:
			c.giveUp(w)
		case w.asked:
			w.queued = false
		default:
			wanted = append(wanted, w)
		}
	}
	n := 0
	if c.line.state == lineUp {
		n = min(len(wanted), watchesAsked-all.open)
	}
	for _, w := range wanted[:n] {
		w.queued, w.asked = false, true
		c.effects.observe = append(c.effects.observe, w.name)
	}
	all.open += n
	rest := append(all.todo[:0], wanted[n:]...)
	clear(all.todo[len(rest):])
	all.todo = rest
}

func (c *core) giveUp(w *watch) {
	delete(c.watches.of, w.name)
	if !w.asked {
		return
	}
	c.effects.unobserve = append(c.effects.unobserve, w.name)
	if !w.live {
		c.watches.open--
	}
}

// unwatch notes that a new stream observes nothing: all is to be asked for
// again. What observers were told stands until somebody says otherwise.
func (c *core) unwatch() {
	all := &c.watches
	all.todo, all.open = all.todo[:0], 0
	for _, name := range all.names() {
		w := all.of[name]
		w.asked, w.live, w.queued = false, false, false
		all.queue(w)
	}
}

func every(*watch) bool { return true }

// endWatches tells the observers of some names that it is over.
func (c *core) endWatches(why error, which func(*watch) bool) {
	for _, name := range c.watches.names() {
		if w := c.watches.of[name]; which(w) {
			c.endWatch(w, why)
		}
	}
}

func (c *core) endWatch(w *watch, why error) {
	for o := range w.observers {
		o.end(why)
	}
	if len(w.observers) > 0 {
		c.watches.observed--
	}
	clear(w.observers)
	c.watches.queue(w)
}

// observed handles what the server tells of a name.
func (c *core) observed(m *linkpb.Observed) {
	w := c.watches.of[m.Name]
	if w == nil || !w.asked {
		return
	}
	if m.Reason != linkpb.Reason_REASON_UNSPECIFIED {
		if !w.live {
			c.watches.open--
		}
		w.asked, w.live = false, false // there is nothing to be given up
		c.endWatch(w, because(m.Reason, m.Message))
		return
	}
	if !w.live {
		w.live = true
		c.watches.open--
	}
	w.leader = Leader{Token: guard.Token(m.Token), Value: m.Value, Label: m.Label}
	if w.leader.Token.Valid() {
		c.highest = max(c.highest, w.leader.Token)
	}
	for o := range w.observers {
		o.tell(w.leader)
	}
}
