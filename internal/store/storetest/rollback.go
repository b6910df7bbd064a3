package storetest

import (
	"github.com/pawlproject/pawl/internal/store"
)

// rolled makes a tenure whose store was set back behind its fifth batch.
func rolled(t T, p *Place) *writer {
	c := newCell(t, p)
	a := c.takeOver()
	a.appendMany(4)
	restore := p.Save()
	a.appendMany(3)
	restore()
	return a
}

func rolledBackAppend(t T, p *Place) {
	a := rolled(t, p)
	n, _ := a.next()
	before := p.Picture(t)
	ends(t, "append after a roll-back", a.send(n), store.ErrRolledBack)
	same(t, "an append after a roll-back", before, p.Picture(t))
	over(a)
}

func rolledBackConfirm(t T, p *Place) {
	a := rolled(t, p)
	ends(t, "confirm after a roll-back", a.ten.Confirm(t.Context()), store.ErrRolledBack)
	// The cell goes on with what is there.
	fresh := newCell(t, p)
	b := fresh.takeOver()
	b.append()
	fresh.takeOver()
}

func rolledBackTenure(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().append()
	restore := p.Save()
	a := c.takeOver()
	a.append()
	restore()
	ends(t, "confirm", a.ten.Confirm(t.Context()), store.ErrRolledBack)
	n, _ := a.next()
	ends(t, "append", a.send(n), store.ErrRolledBack)
}

// revisionsAgain:
//
//  1. the store is set back to before A claimed;
//  2. B claims, opens and appends: the same epoch, numbers and revisions as A's;
//  3. A, which has noticed nothing, appends: every revision it compares fits.
func revisionsAgain(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().append()
	restore := p.Save()
	a := c.takeOver()
	a.appendMany(2)
	n, _ := a.next()
	restore()
	other := newCell(t, p)
	other.marks = 1000
	b := other.takeOver()
	b.appendMany(2)
	before := p.Picture(t)
	if err := a.ten.Append(t.Context(), n, a.raw[n]); err == nil {
		t.Errorf("an append landed in the tenure of another that took its place in a store set back")
	}
	same(t, "it", before, p.Picture(t))
	if err := a.ten.Confirm(t.Context()); err == nil {
		t.Errorf("a tenure confirms over another that took its place")
	}
	b.append()
	other.takeOver()
}
