package sim

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/step"
)

// shrinkMax bounds the runs that making a failure smaller may take.
const shrinkMax = 400

// Shrink takes out of a failing plan whatever it fails without, in the same
// invariant.
func Shrink(p Plan) (Plan, Result) {
	last := Run(p, false)
	if last.Failure == nil {
		return p, last
	}
	runs := 0
	for again := true; again; {
		again = false
		for _, smaller := range smaller(p, last.Failure.At) {
			if runs++; runs > shrinkMax {
				return p, Run(p, true)
			}
			if r := Run(smaller, false); r.Failure != nil && r.Failure.Invariant == last.Failure.Invariant {
				p, last, again = smaller, r, true
				break
			}
		}
	}
	return p, Run(p, true)
}

// smaller lists plans with one thing less, the largest steps first.
func smaller(p Plan, failed time.Duration) []Plan {
	var all []Plan
	with := func(change func(q *Plan)) {
		q := p
		q.Faults, q.Clients, q.Unary = slices.Clone(p.Faults), slices.Clone(p.Clients), slices.Clone(p.Unary)
		change(&q)
		all = append(all, q)
	}
	if n := len(p.Faults); n > 2 {
		with(func(q *Plan) { q.Faults = q.Faults[:n/2] })
		with(func(q *Plan) { q.Faults = q.Faults[n/2:] })
	}
	for i := range p.Clients {
		if len(p.Clients)+len(p.Unary) > 1 {
			with(func(q *Plan) { q.Clients = slices.Delete(q.Clients, i, i+1) })
		}
	}
	for i := range p.Unary {
		if len(p.Clients)+len(p.Unary) > 1 {
			with(func(q *Plan) { q.Unary = slices.Delete(q.Unary, i, i+1) })
		}
	}
	for i := range p.Faults {
		with(func(q *Plan) { q.Faults = slices.Delete(q.Faults, i, i+1) })
	}
	for _, field := range p.FaultRates.fields() {
		if *field != 0 {
			old := *field
			*field = 0
			with(func(*Plan) {})
			*field = old
		}
	}
	if p.Servers > 1 {
		with(func(q *Plan) {
			q.Servers--
			q.WallSteps = slices.DeleteFunc(slices.Clone(q.WallSteps), func(x WallStep) bool { return x.Server >= q.Servers })
			q.Faults = slices.DeleteFunc(q.Faults, func(f Fault) bool { return f.Kind <= IsolateServer && f.Target >= q.Servers })
		})
	}
	if p.Follows {
		with(func(q *Plan) { q.Follows = false })
	}
	if p.Bounds != (step.TurnBounds{}) {
		with(func(q *Plan) { q.Bounds = step.TurnBounds{} })
	}
	for i := range p.WallSteps {
		with(func(q *Plan) { q.WallSteps = slices.Delete(slices.Clone(q.WallSteps), i, i+1) })
	}
	if n := len(p.Quiet); n > 0 {
		with(func(q *Plan) { q.Quiet = nil })
		with(func(q *Plan) { q.Quiet = q.Quiet[:n/2] })
		with(func(q *Plan) { q.Quiet = q.Quiet[n/2:] })
		for i := range min(n, 20) {
			with(func(q *Plan) { q.Quiet = slices.Delete(slices.Clone(q.Quiet), i, i+1) })
		}
	}
	if p.Names > 1 {
		with(func(q *Plan) {
			q.Names--
			q.Faults = slices.DeleteFunc(q.Faults, func(f Fault) bool { return (f.Kind == Break || f.Kind == ForceBreak) && f.Target >= q.Names })
		})
	}
	for i, c := range p.Clients {
		if c.Callers > 1 {
			with(func(q *Plan) { q.Clients[i].Callers = 1 })
		}
		if c.Restless {
			with(func(q *Plan) { q.Clients[i].Restless = false })
		}
	}
	for i, c := range p.Unary {
		if c.HangsUp {
			with(func(q *Plan) { q.Unary[i].HangsUp = false })
		}
	}
	if len(p.Drifts) > 0 {
		with(func(q *Plan) { q.Drifts = nil })
	}
	if m := p.Modes; m != nil && !m.Row {
		for _, field := range []func(*Modes) *float64{
			func(m *Modes) *float64 { return &m.Shared }, func(m *Modes) *float64 { return &m.Several },
			func(m *Modes) *float64 { return &m.Delay }, func(m *Modes) *float64 { return &m.Value },
		} {
			if *field(m) > 0 {
				less := *m
				*field(&less) = 0
				with(func(q *Plan) { q.Modes = &less })
			}
		}
		if m.Observe {
			less := *m
			less.Observe = false
			with(func(q *Plan) { q.Modes = &less })
		}
	}
	if p.SnapshotEvery < 1000 {
		with(func(q *Plan) { q.SnapshotEvery = 1000 })
	}
	if early := failed + time.Second; early < p.FaultsEnd {
		with(func(q *Plan) {
			q.FaultsEnd, q.Stop, q.End = early, early+6*time.Second, early+66*time.Second
			q.Faults = slices.DeleteFunc(q.Faults, func(f Fault) bool { return f.At+f.For > early })
		})
	}
	return all
}

// fields of the fault rates, so that each can be taken out.
func (x *FaultRates) fields() []*float64 {
	return []*float64{
		&x.LoseRequest, &x.LoseAnswer, &x.Repeat, &x.SlowStore, &x.Cut, &x.Swallow, &x.LoseUp, &x.LoseDown, &x.Late, &x.Lose, &x.Double, &x.Slow,
	}
}
