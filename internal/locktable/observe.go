package locktable

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/planted"
)

func (c Observe) decide(t *Table, now Now, d *Decided) {
	s := t.onStream(c.Session, c.Generation, c.Ref, d)
	if s == nil {
		return
	}
	if err := ValidName(c.Name); err != nil {
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
	if l := t.locks[c.Name]; l != nil && t.stale(l) {
		t.serve(now, l, d)
	}
	l := t.lockOf(c.Name, true)
	put(&s.observed, c.Name, l)
	k := l.attended()
	k.observers = append(k.observers, observer{s: s, ref: c.Ref})
	k.shown = l.token()
	d.reply(c.Ref, 0, l.observed())
}

func (c Unobserve) decide(t *Table, _ Now, _ *Decided) {
	if s := t.sessions[c.Session]; s != nil && s.generation == c.Generation {
		if l := s.observed[c.Name]; l != nil {
			t.unobserve(s, l)
		}
	}
}

func (t *Table) unobserve(s *session, l *lock) {
	delete(s.observed, l.name)
	l.observers = slices.DeleteFunc(l.observers, func(o observer) bool { return o.s == s })
	t.forget(l)
}

func (t *Table) unobserveAll(s *session) {
	for _, name := range sortedKeys(s.observed) {
		t.unobserve(s, s.observed[name])
	}
}

// tell lets the observers of a name know when its first holder has changed.
func (l *lock) tell(d *Decided) {
	if len(l.observers) == 0 {
		return
	}
	if token := l.token(); token != l.shown && !(token == 0 && planted.Is("observers not told that a name is free")) {
		l.shown = token
		for _, o := range l.observers {
			d.reply(o.ref, 0, l.observed())
		}
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
