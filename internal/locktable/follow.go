package locktable

import (
	"math"
	"time"
)

// Followed ends a read of a log that another server goes on writing, and which Apply
// then goes on with. It does what FinishReplay does, and forgets request ids OutcomeKept
// after their end was read: a table on which nobody decides has no Tick that would, and
// would grow for ever. now is any time that does not run ahead of the clock's.
func (t *Table) Followed(now time.Duration) {
	t.FinishReplay()
	t.outcomes.turn(Now{Low: now, High: now}, math.MaxInt, func(x *outcome) { t.charge(x.identity, usage{ids: -1}) })
}

// Lead has the table go on in a tenure, whose time begins anew.
func (t *Table) Lead(now time.Duration) { t.outcomes.restart(now) }

// restart has what is left of each outcome counted from the next turn on.
func (o *outcomes) restart(now time.Duration) {
	for _, x := range o.order {
		x.left = max(x.forget-now, 1)
	}
	o.fresh, o.order = append(o.order, o.fresh...), nil
}
