package locktable

import (
	"cmp"
	"fmt"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

func (c Observe) decide(t *Table, now Now, d *Decided) {
	s := t.onStream(c.Session, c.Generation, c.Ref, d)
	if s == nil {
		return
	}
	if err := bounds.ValidName(c.Name); err != nil {
		d.reply(c.Ref, 0, Closed{Reason: Invalid, Message: err.Error()})
		return
	}
	if s.observed[c.Name] != nil {
		return
	}
	if len(s.observed) >= t.limits.Observed {
		d.reply(c.Ref, 0, Closed{Reason: Exhausted, Message: fmt.Sprintf(
			"the session observes %d names, its limit", len(s.observed))})
		return
	}
	more := usage{observers: 1}
	why := t.overdrawn(s.identity, more)
	if why == "" && t.total.observers >= t.limits.Observers {
		why = fmt.Sprintf("the cell's sessions observe %d names, its limit", t.total.observers)
	}
	if why != "" {
		// Others may have taken up the room: that must not cost the session.
		d.reply(c.Ref, 0, Observed{Name: c.Name, Reason: Exhausted, Message: why})
		return
	}
	if l := t.locks[c.Name]; l != nil && t.stale(l) {
		t.serve(now, l, d)
	}
	l := t.lockOf(c.Name, true)
	k := l.contended()
	o := &observer{s: s, ref: c.Ref, lock: l, at: len(k.observers)}
	k.observers = append(k.observers, o)
	if k.pending {
		// The others are told when the turn ends, unless all is then as they know it. This
		// one knows something else: so then all are told in any case.
		k.shown = guard.Max + 1
	} else {
		k.shown = l.token()
	}
	put(&s.observed, l.name, o)
	t.charge(s.identity, more)
	d.reply(c.Ref, 0, l.observed())
}

func (c Unobserve) decide(t *Table, _ Now, _ *Decided) {
	if s := t.sessions[c.Session]; s != nil && s.generation == c.Generation {
		if o := s.observed[c.Name]; o != nil {
			t.unobserve(o)
		}
	}
}

// unobserve takes an observer out; the last one takes its place, since a name may
// have thousands.
func (t *Table) unobserve(o *observer) {
	l := o.lock
	delete(o.s.observed, l.name)
	last := len(l.observers) - 1
	l.observers[o.at] = l.observers[last]
	l.observers[o.at].at = o.at
	l.observers[last] = nil
	l.observers = l.observers[:last]
	t.charge(o.s.identity, usage{observers: -1})
	t.forget(l)
}

func (t *Table) unobserveAll(s *session) {
	for _, name := range sortedKeys(s.observed) {
		t.unobserve(s.observed[name])
	}
}

// atOnce is how often in one turn observers are told at once of changes of a name.
const atOnce = 4

// show tells the observers of a name that its first holder has changed: at once for the
// first changes of a turn, and at the turn's end for the last. A name may have
// thousands of observers, and change as often in one turn.
func (t *Table) show(l *lock, d *Decided) {
	if len(l.observers) == 0 || l.token() == l.shown {
		return
	}
	if l.notifiedTurn != t.works {
		l.notifiedTurn, l.notified = t.works, 0
	}
	switch {
	case l.notified < atOnce:
		l.notified++
		l.notify(d)
	case !l.pending:
		l.pending = true
		t.pendingObservers = append(t.pendingObservers, l)
	}
}

// notifyPending ends a turn.
func (t *Table) notifyPending(d *Decided) {
	t.works++
	for i, l := range t.pendingObservers {
		l.pending = false
		l.notify(d)
		t.pendingObservers[i] = nil
	}
	t.pendingObservers = t.pendingObservers[:0]
}

func (l *lock) notify(d *Decided) {
	token := l.token()
	if token == l.shown {
		return
	}
	l.shown = token
	var a Answer = l.observed()
	for _, o := range l.observers {
		d.reply(o.ref, 0, a)
	}
}

func (l *lock) observed() Observed {
	o := Observed{Name: l.name}
	if len(l.holders) > 0 {
		h := l.holders[0]
		o.Token, o.Value, o.Label = h.token, h.extra.value, cmp.Or(h.extra.label, h.session.label)
	}
	return o
}

// token is the first holder's, 0 when the name is free.
func (l *lock) token() guard.Token {
	if len(l.holders) == 0 {
		return 0
	}
	return l.holders[0].token
}
