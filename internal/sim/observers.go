package sim

import (
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// observers compares answers to observers with the log: the first holders of a name, 0
// for none, in the order of the log. Answers may leave some out. They must not invent
// or repeat one, or return to an earlier one.
type observers struct {
	referee *referee
	firsts  map[string][]guard.Token
	// state is how far each watch has come.
	state map[watch]observedState
}

type watch struct {
	on   *stream
	name string
}

// observedState: the present holder is the one at place, or none of those before it.
type observedState struct {
	place int
	any   bool
}

func newObservers(r *referee) observers {
	return observers{referee: r, firsts: map[string][]guard.Token{}, state: map[watch]observedState{}}
}

// changed takes in that the log has gone on.
func (o *observers) changed(l *ledger) {
	m := o.referee.world.plan.Modes
	if m == nil || !m.Observe || o.referee.rebuilding {
		return
	}
	for _, name := range o.referee.world.plan.names() {
		first := l.first(name)
		if all := o.firsts[name]; len(all) == 0 || all[len(all)-1] != first {
			o.firsts[name] = append(all, first)
		}
	}
}

// first is who observers are told of: of those that hold slots the one with the
// lowest, else the one that has held for longest.
func (l *ledger) first(name string) guard.Token {
	var first *entry
	var slot uint32
	for _, x := range l.holders[name] {
		for _, g := range x.grants {
			if g.Name == name && (first == nil || g.Slot < slot) {
				first, slot = x, g.Slot
			}
		}
	}
	if first == nil {
		return 0
	}
	return first.token
}

// asks takes in that a stream asks to be told: what was so before does not
// answer it.
func (o *observers) asks(x *stream, name string) {
	o.state[watch{x, name}] = observedState{place: max(len(o.firsts[name])-1, 0)}
}

// answered compares what a server tells an observer with the log.
func (o *observers) answered(s *server, x *stream, a locktable.Observed) {
	r, of := o.referee, watch{x, a.Name}
	last, asked := o.state[of]
	if s.served.misled || !asked {
		return
	}
	from := last.place
	if last.any {
		from++
	}
	for i, all := from, o.firsts[a.Name]; i < len(all); i++ {
		if all[i] == a.Token {
			o.state[of] = observedState{i, true}
			r.tally.Observed++
			return
		}
	}
	r.world.fail("I3", "%s tells %s that token %d holds %s (0: nobody), and by the log it does not, or did before what was told last",
		s.name, x.client.name, a.Token, a.Name)
}
