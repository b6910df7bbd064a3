package appends

import (
	"context"
	"fmt"
)

// kind is a kind of action.
type kind uint8

const (
	claims kind = iota
	follows
	replays
	sends
	retries
	reaches
	answers
	givesUp
	lands
	confirms
	setsBack
	writes
)

// action is one thing that can happen: to whom, to which, and how.
type action struct {
	kind           kind
	of, which, how uint8
}

// enabled lists what can happen next.
func (w *World) enabled() []action {
	var all []action
	add := func(k kind, of, which, how int) {
		all = append(all, action{k, uint8(of), uint8(which), uint8(how)})
	}
	hows := 1
	if w.left.Late > 0 {
		hows = 2
	}
	for i, t := range w.tenures {
		if t.phase == claimed {
			add(replays, i, 0, 0)
		}
		if t.sends() {
			add(sends, i, 0, 0)
		}
		if t.phase == serving {
			add(confirms, i, 0, 0)
		}
		for j, b := range t.batches {
			w.callActions(t, j, b, hows, add)
		}
	}
	for i, s := range w.strays {
		if w.would(s.txn) {
			add(lands, 0, i, 0)
		}
	}
	if w.left.Takes > 0 {
		for how := range hows {
			add(claims, 0, 0, how)
		}
	}
	if w.left.Follows > 0 {
		add(follows, 0, 0, 0)
	}
	for i, s := range w.saved {
		if s.view != w.view {
			add(setsBack, 0, i, 0)
			add(setsBack, 0, i, 1)
		}
	}
	if w.left.ForeignWrites > 0 {
		add(writes, 0, 0, 0)
	}
	return all
}

// callActions are those around one batch.
func (w *World) callActions(t *tenure, j int, b *batch, hows int, add func(k kind, of, which, how int)) {
	c := b.call
	switch {
	case c == nil && !b.answered && t.phase == serving:
		add(retries, t.id, j, 0)
	case c == nil:
	case !c.landed:
		for how := range hows {
			add(reaches, t.id, j, how)
		}
		if t.phase != over && w.left.Late > 0 {
			add(givesUp, t.id, j, 0)
		}
	case t.phase != over:
		add(answers, t.id, j, 0)
		if w.left.Unheard > 0 {
			add(givesUp, t.id, j, 0)
		}
	}
}

// do has an action happen. What panics is a violation too.
func (w *World) do(a action) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v", p)
		}
	}()
	var t *tenure
	if len(w.tenures) > int(a.of) {
		t = w.tenures[a.of]
	}
	i := int(a.which)
	switch a.kind {
	case claims:
		w.left.Takes--
		w.left.Late -= int(a.how)
		w.claim(a.how == 1)
	case follows:
		w.left.Follows--
		w.follow()
	case replays:
		t.replay()
	case sends:
		if t.phase == serving {
			w.left.Batches--
		}
		t.send()
	case retries:
		t.retry(i)
	case reaches:
		w.left.Late -= int(a.how)
		w.deliver(t, t.batches[i], a.how == 1)
	case answers:
		t.goOn(t.batches[i])
	case givesUp:
		w.giveUp(t, t.batches[i])
	case lands:
		s := w.strays[i]
		w.land(s.request)
		if s.landed++; s.landed == strayMax {
			w.strays = append(w.strays[:i:i], w.strays[i+1:]...)
		}
	case confirms:
		w.confirm(t)
	case setsBack:
		w.setBack(i, a.how == 1)
	case writes:
		w.left.ForeignWrites--
		w.strange()
		w.changed()
	}
}

// deliver has the request of a batch reach the store; again: it will once more.
func (w *World) deliver(t *tenure, b *batch, again bool) {
	c := b.call
	c.res = w.land(c.request)
	c.landed = true
	if again {
		w.strays = append(w.strays, &stray{c.request, 1})
	}
	if t.phase == over {
		b.call = nil
	}
}

// giveUp has a server wait no longer: the answer is lost, or the request stays
// under way.
func (w *World) giveUp(t *tenure, b *batch) {
	c := b.call
	if c.landed {
		w.left.Unheard--
	} else {
		w.left.Late--
		w.strays = append(w.strays, &stray{c.request, 0})
	}
	c.givenUp = true
	t.goOn(b)
}

// confirm asks the store whether the tenure is in force.
func (w *World) confirm(t *tenure) {
	if err := t.real.Confirm(context.Background()); err != nil {
		w.alarm(t, err)
		return
	}
	w.stands(t, t.acked, "a Confirm succeeds")
}

// describe says what an action is, in the state in which it happens.
func (w *World) describe(a action) string {
	again := [...]string{"", ", and comes again some day"}
	name := func() string { return w.tenures[a.of].name() }
	number := func() uint64 { return w.tenures[a.of].batches[a.which].number }
	switch a.kind {
	case claims:
		return fmt.Sprintf("tenure %c is claimed; the claim lands%s", 'A'+len(w.tenures), again[a.how])
	case follows:
		return fmt.Sprintf("the standby, which has read %d batches, reads on", w.standby.at.Number)
	case replays:
		if n := w.tenures[a.of].from.at.Number; n > 0 {
			return fmt.Sprintf("%s reads on from batch %d", name(), n)
		}
		return fmt.Sprintf("%s reads the log", name())
	case sends:
		t := w.tenures[a.of]
		if t.phase == replayed {
			return fmt.Sprintf("%s sends its opening batch %d", name(), t.batches[0].number)
		}
		return fmt.Sprintf("%s sends batch %d; it knows %d durable", name(), t.batches[len(t.batches)-1].number+1, t.acked)
	case retries:
		return fmt.Sprintf("%s sends batch %d again; it knows %d durable", name(), number(), w.tenures[a.of].acked)
	case reaches:
		return fmt.Sprintf("batch %d of %s reaches the store%s", number(), name(), again[a.how])
	case answers:
		return fmt.Sprintf("%s is answered about batch %d", name(), number())
	case givesUp:
		return fmt.Sprintf("%s waits no longer for an answer about batch %d", name(), number())
	case lands:
		s := w.strays[a.which]
		if s.of == nil {
			return fmt.Sprintf("the claim of %s, which was under way, reaches the store", s.by.name())
		}
		return fmt.Sprintf("batch %d of %s, which was under way, reaches the store", s.of.number, s.by.name())
	case confirms:
		return fmt.Sprintf("%s asks whether it is in force", name())
	case setsBack:
		s := w.saved[a.which]
		return fmt.Sprintf("the store is set back to revision %d, where the log had %d batches%s", s.rev, s.head, [...]string{"", ", and others raise the revision to what it was"}[a.how])
	default:
		return "somebody else writes to the store"
	}
}
