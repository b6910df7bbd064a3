package locktable

import (
	"testing"

	"github.com/pawlproject/pawl/internal/bounds"
)

// Thousands of shared waiters are all blocked at a second name by a waiter that they
// may not pass. A further waiter, or a change of the first name, must not walk their
// queue for each of them: that took minutes and blocked the cell.
func TestManySharedWaitersStayCheap(t *testing.T) {
	const waiters = 4000
	table, now, d := New(bounds.DefaultLimits), Now{}, &Decided{}
	table.Found("c", make([]byte, 32), d)
	table.Open(1, now.Wall.AddDate(2026, 0, 0), 0, d)
	now.Wall = now.Wall.AddDate(2027, 0, 0)
	for i := range byte(3) {
		table.Decide(now, Attach{Ref: i, New: ID{1 + i}, TTL: bounds.TTLDefault, Generation: 1}, d)
	}
	ask := func(session byte, number uint64, m Mode, names ...string) {
		table.Decide(now, Acquire{Ref: session - 1, Session: ID{session}, Generation: 1, Number: number, Mode: m, Names: names}, d)
	}
	granted := func(session byte, number uint64) Granted {
		t.Helper()
		last := d.Replies[len(d.Replies)-1]
		g, yes := last.Answer.(Granted)
		if !yes || last.To != session-1 || last.Number != number {
			t.Fatalf("the last answer is %+v", last)
		}
		return g
	}
	ask(1, 1, Exclusive, "far")
	far := granted(1, 1)
	ask(1, 2, Exclusive, "far", "near")
	for n := range uint64(waiters) {
		ask(2, n+1, Shared, "busy", "near")
	}
	for n := uint64(1); n < waiters; n += 2 {
		ask(3, n, Shared, "busy")
		table.Decide(now, Release{Session: ID{3}, Generation: 1, Number: n + 1, Token: granted(3, n).Token, Ref: byte(2)}, d)
	}
	if c := table.Counts(); c.Waiters != waiters+1 || c.Leases != 1 {
		t.Fatalf("%d waiters and %d leases", c.Waiters, c.Leases)
	}

	table.Decide(now, Cancel{Session: ID{1}, Generation: 1, Number: 2}, d)
	if c := table.Counts(); c.Waiters != 0 || c.Leases != waiters+1 {
		t.Errorf("nobody bars the way any more: %d waiters, %d leases", c.Waiters, c.Leases)
	}
	table.Decide(now, Release{Session: ID{1}, Generation: 1, Number: 3, Token: far.Token, Ref: byte(0)}, d)
}

// Of thousands of slots, one that is given back is free at once, and is the next one
// that is given.
func TestReturnedSlotIsGrantedNext(t *testing.T) {
	const slots, back = 2 * goneMin, 5
	s := newShop(bounds.DefaultLimits)
	holder := s.attach("")
	take := func(number uint64) Granted {
		t.Helper()
		a := s.decide(Acquire{
			Ref: holder, Session: holder, Generation: 1, Number: number, Mode: Slots, Slots: slots, Try: true, Names: []string{"x"},
		})
		g, yes := a.(Granted)
		if !yes {
			t.Fatalf("request %d: %+v", number, a)
		}
		return g
	}
	var given Granted
	for n := range uint64(slots) {
		if g := take(n + 1); g.Grants[0].Slot == back {
			given = g
		}
	}
	s.decide(Release{Ref: holder, Session: holder, Generation: 1, Number: slots + 1, Token: given.Token})
	if g := take(slots + 2); g.Grants[0].Slot != back {
		t.Errorf("slot %d was given back, and %d was given", back, g.Grants[0].Slot)
	}
}
