package storetest

import (
	"sync"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Text 2: answers need order, not time; and what an ended tenure hears.
var orderTests = []Test{
	{Name: "ZombieIsFenced", Run: zombie},
	{Name: "ZombieOpens", Run: zombieOpens},
	{Name: "ZombieTakesASnapshot", Run: zombieSnapshot},
	{Name: "ConfirmIsNeverOlderThanItsCall", Run: confirmOrder},
	{Name: "RollBackSeenAtAppend", Needs: NeedSave, Run: rolledBackAppend},
	{Name: "RollBackSeenAtConfirm", Needs: NeedSave, Run: rolledBackConfirm},
	{Name: "RollBackBeforeTheTenure", Needs: NeedSave, Run: rolledBackTenure},
	{Name: "RollBackBeforeATakeOver", Needs: NeedSave, Run: silentTenure},
	{Name: "RevisionsComeASecondTime", Needs: NeedSave, Run: revisionsAgain},
}

// zombie: every call of an ended tenure writes nothing, before and after the next tenure
// opened. All but Resign return ErrFenced.
func zombie(t T, p *Place) {
	c := newCell(t, p)
	a := c.takeOver()
	a.appendMany(10)
	n, _ := a.next()
	b := c.claim(c.server(), hasty)
	hears := func(a *writer, when string) {
		before := p.Picture(t)
		ends(t, "append "+when, a.ten.Append(t.Context(), n, a.raw[n]), store.ErrFenced)
		ends(t, "confirm "+when, a.ten.Confirm(t.Context()), store.ErrFenced)
		ends(t, "snapshot "+when, a.snapshot(), store.ErrFenced)
		if err := a.ten.Resign(t.Context()); err != nil {
			t.Errorf("resign %s: %v", when, err)
		}
		same(t, "a zombie's writes "+when, before, p.Picture(t))
	}
	hears(a, "before the opening")
	b.begin()
	hears(a, "after the opening")
	b.append()
	if err := b.ten.Confirm(t.Context()); err != nil {
		t.Errorf("confirm: %v", err)
	}

	// Verb by verb, each the first that its zombie tries.
	for verb, do := range map[string]func(z *writer) error{
		"append":   func(z *writer) error { n, _ := z.next(); return z.send(n) },
		"confirm":  func(z *writer) error { return z.ten.Confirm(t.Context()) },
		"snapshot": func(z *writer) error { return z.snapshot() },
		"replay":   func(z *writer) error { return z.replay() },
	} {
		z := c.takeOver()
		z.append()
		d := c.takeOver()
		before := p.Picture(t)
		ends(t, verb, do(z), store.ErrFenced)
		same(t, "a zombie's "+verb, before, p.Picture(t))
		d.append()
	}
	c.takeOver()
}

// zombieOpens: A replayed, B claimed; A's opening batch would fit the log as
// it is, and must not land, nor once B has opened.
func zombieOpens(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().append()
	for _, opened := range []bool{false, true} {
		a := c.claim(c.server(), hasty)
		if err := a.replay(); err != nil {
			t.Fatalf("replay: %v", err)
		}
		b := c.claim(c.server(), hasty)
		if opened {
			b.begin()
		}
		before := p.Picture(t)
		ends(t, "open", a.open(), store.ErrFenced)
		same(t, "a zombie's opening", before, p.Picture(t))
	}
	c.takeOver()
}

// zombieSnapshot: the take-over comes while a write of the snapshot is on its
// way.
func zombieSnapshot(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().appendMany(20)
	for _, step := range steps {
		srv := c.server()
		a := c.claim(srv, hasty)
		a.begin()
		a.appendMany(20)
		if err := a.snapshot(); err != nil {
			t.Fatalf("snapshot: %v", err)
		}
		a.appendMany(20)
		var before map[string]string
		when(srv, step, func() {
			c.takeOver()
			before = p.Picture(t)
		})
		ends(t, "snapshot over a take-over", a.snapshot(), store.ErrFenced)
		same(t, "a zombie's "+string(step), before, p.Picture(t))
	}
	c.takeOver()
}

// confirmOrder: a confirm that begins after another's claim landed must fail,
// however many succeeded before.
func confirmOrder(t T, p *Place) {
	c := newCell(t, p)
	a := c.takeOver()
	for range 10 {
		if err := a.ten.Confirm(t.Context()); err != nil {
			t.Fatalf("confirm: %v", err)
		}
	}
	srv := c.server()
	when(srv, kvlog.WhatClaim, func() {
		if err := a.ten.Confirm(t.Context()); err != nil {
			t.Errorf("confirm before the claim landed: %v", err)
		}
	})
	b := c.claim(srv, hasty)
	ends(t, "confirm after the claim landed", a.ten.Confirm(t.Context()), store.ErrFenced)
	b.begin()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := b.ten.Confirm(t.Context()); err != nil {
				t.Errorf("confirm side by side: %v", err)
			}
		})
	}
	wg.Wait()
}
