package storetest

import (
	"bytes"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
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
	{Name: "RevisionsComeASecondTime", Needs: NeedSave, Run: revisionsAgain},
}

// zombie: every verb of an ended tenure hears so, and nothing of it lands,
// before and after its successor opened.
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

// Text 3: every write is harmless if it lands again, later.
var lateTests = []Test{
	{Name: "IdempotentRetry", Run: retry},
	{Name: "LostAnswerOverATakeOver", Run: lostOverTakeOver},
	{Name: "AnotherBatchUnderTheSameNumber", Run: anotherBatch},
	{Name: "AppendsArriveInTheOtherOrder", Run: reordered},
	{Name: "HoleIsCut", Run: holeIsCut},
	{Name: "HoleIsFilled", Run: holeIsFilled},
	{Name: "LateDuplicatesOfEveryWrite", Run: lateDuplicates},
	{Name: "WritesThatLandOnlyLater", Run: landOnlyLater},
	{Name: "Turmoil", Run: turmoil},
}

func retry(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().append()
	for _, fate := range []faulty.Fate{mute, refused} {
		srv := c.server()
		a := c.claim(srv, hasty)
		if err := a.replay(); err != nil {
			t.Fatalf("replay: %v", err)
		}
		once(srv, kvlog.WhatOpen, fate)
		if a.open() == nil {
			t.Errorf("open with a lost answer succeeds")
		}
		if err := a.open(); err != nil {
			t.Fatalf("open again: %v", err)
		}
		a.append()
		n, raw := a.next()
		once(srv, kvlog.WhatAppend, fate)
		if a.send(n) == nil {
			t.Errorf("append with a lost answer succeeds")
		}
		for range 3 {
			if err := a.send(n); err != nil {
				t.Errorf("append %d again: %v", n, err)
			}
		}
		if !bytes.Equal(p.Batch(t, n), raw) {
			t.Errorf("batch %d is not what was appended", n)
		}
		a.append()
	}
	c.takeOver()
}

// lostOverTakeOver:
//
//  1. A's append landed and its answer is lost;
//  2. B claims, and has not looked at the log yet;
//  3. A tries again: the batch is there, and A's it is, and A must not say so,
//     for it stands behind a hole and B will cut it.
func lostOverTakeOver(t T, p *Place) {
	c := newCell(t, p)
	srv := c.server()
	a := c.claim(srv, hasty)
	a.begin()
	lost, _ := a.next()
	n, _ := a.next()
	once(srv, kvlog.WhatAppend, mute)
	if a.send(n) == nil {
		t.Fatalf("append with a lost answer succeeds")
	}
	b := c.claim(c.server(), hasty)
	ends(t, "append again under another tenure", a.send(n), store.ErrFenced)
	b.begin()
	if b.last != lost {
		t.Errorf("the opening batch is %d, want %d", b.last, lost)
	}
	ends(t, "append again after it opened", a.send(n), store.ErrFenced)
	b.append()
	c.takeOver()
}

// anotherBatch: what lies under the number is of another tenure, or of mine
// with other bytes, or has my bytes' length only; none of it is mine.
func anotherBatch(t T, p *Place) {
	for what, other := range map[string]func(a *writer, n uint64) []byte{
		"another nonce": func(a *writer, n uint64) []byte {
			nonce := a.ten.Nonce()
			nonce[15] ^= 1
			raw, _ := a.seal(a.ten.Epoch(), nonce, n, a.sum, 0, 1)
			return raw
		},
		"another epoch": func(a *writer, n uint64) []byte {
			raw, _ := a.seal(a.ten.Epoch()-1, a.ten.Nonce(), n, a.sum, 0, 1)
			return raw
		},
		"other bytes": func(a *writer, n uint64) []byte {
			raw, _ := a.seal(a.ten.Epoch(), a.ten.Nonce(), n, a.sum, 0, 1<<40)
			return raw
		},
	} {
		c := newCell(t, p)
		if p.Batch(t, 1) == nil {
			c.takeOver()
		}
		a := c.takeOver()
		n, _ := a.next()
		p.SetBatch(t, n, other(a, n))
		ends(t, "append over a batch of "+what, a.send(n), store.ErrDamaged, store.ErrRolledBack)
		over(a)
		p.DropBatch(t, n)
	}
}

// reordered: what is in flight overtakes what went out before it.
func reordered(t T, p *Place) {
	c := newCell(t, p)
	srv := c.server()
	w := c.claim(srv, hasty)
	w.begin()
	for range 10 {
		delay := store.InFlight * gap
		var mu sync.Mutex
		srv.Plan(func(what kvlog.What) faulty.Fate {
			if what != kvlog.WhatAppend {
				return faulty.Fate{}
			}
			mu.Lock()
			defer mu.Unlock()
			delay -= gap
			return faulty.Fate{Delay: delay}
		})
		var flight sync.WaitGroup
		for range store.InFlight {
			n, _ := w.next()
			flight.Go(func() {
				if err := w.send(n); err != nil {
					t.Errorf("append %d: %v", n, err)
				}
			})
		}
		flight.Wait()
		if w.durable != w.last {
			t.Errorf("%d batches were appended and %d are durable", w.last, w.durable)
		}
	}
	c.takeOver()
}

// gap is between two delayed writes; nothing depends on its being kept.
const gap = 2 * time.Millisecond

// hole leaves batch n missing and the three behind it landed.
func hole(c *cell) (a *writer, n uint64) {
	srv := c.server()
	a = c.claim(srv, hasty)
	a.begin()
	a.appendMany(3)
	n, _ = a.next()
	once(srv, kvlog.WhatAppend, refused)
	if a.send(n) == nil {
		c.t.Fatalf("a lost append succeeds")
	}
	var wg sync.WaitGroup
	for range store.InFlight - 1 {
		m, _ := a.next()
		wg.Go(func() {
			if err := a.send(m); err != nil {
				c.t.Errorf("append %d ahead: %v", m, err)
			}
		})
	}
	wg.Wait()
	return a, n
}

func holeIsCut(t T, p *Place) {
	c := newCell(t, p)
	a, n := hole(c)
	b := c.claim(c.server(), hasty)
	if err := b.replay(); err != nil {
		t.Fatalf("replay: %v", err)
	}
	if b.last != n-1 {
		t.Errorf("replay ends at %d, and %d is missing", b.last, n)
	}
	if err := b.open(); err != nil {
		t.Fatalf("open: %v", err)
	}
	for m := n + 1; m < n+store.InFlight; m++ {
		if p.Batch(t, m) != nil {
			t.Errorf("batch %d, behind the hole, was not cut", m)
		}
	}
	ends(t, "fill the hole", a.send(n), store.ErrFenced)
	b.appendMany(2)
	c.takeOver()
}

func holeIsFilled(t T, p *Place) {
	c := newCell(t, p)
	a, n := hole(c)
	m, raw := a.next()
	if err := a.ten.Append(t.Context(), m, raw); err == nil {
		t.Errorf("batch %d went out while %d is not durable", m, n)
	}
	if p.Batch(t, m) != nil {
		t.Errorf("batch %d landed while %d is not durable", m, n)
	}
	if err := a.send(n); err != nil {
		t.Fatalf("fill the hole: %v", err)
	}
	if err := a.send(m); err != nil {
		t.Errorf("append %d: %v", m, err)
	}
	b := c.takeOver()
	if b.last != m+1 {
		t.Errorf("the opening batch is %d, want %d", b.last, m+1)
	}
}
