package locktable

import (
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// Grade is what stands between a holder that is late and the resource, in the holder's
// own word.
type Grade uint8

// The grades. A lease that claims is of grade Claimed, also when it has a lock-delay.
const (
	// Advisory: the lease alone.
	Advisory Grade = iota
	// Delayed: a lock-delay.
	Delayed
	// Claimed: a guard, which the holder claims before it acts.
	Claimed

	grades
)

func (g Grade) String() string { return [...]string{"advisory", "delayed", "claimed"}[g] }

func (l *lease) grade() Grade {
	switch {
	case l.claims:
		return Claimed
	case l.extra.delay > 0:
		return Delayed
	}
	return Advisory
}

// ByGrade counts leases, by their grade.
type ByGrade [grades]int

// count notes that a lease came (1) or went (-1).
func (t *Table) count(l *lease, n int) {
	t.byGrade[l.grade()] += n
	if l.extra.ride > 0 {
		t.riders += n
	}
}

// rode notes that a session has returned whose leases have been riding for so long. A
// client that did not get the answer greets again, and tells of the same ride: more is how
// much longer it has become; first: it is told of for the first time.
func (t *Table) rode(s *session, riding time.Duration) (more time.Duration, first bool) {
	if riding <= 0 {
		delete(t.returned, s)
		return 0, false
	}
	riding = min(riding, bounds.RideThroughMax)
	before := t.returned[s]
	if first = riding < before || before == 0; first {
		before = 0
	}
	put(&t.returned, s, riding)
	return riding - before, first
}
