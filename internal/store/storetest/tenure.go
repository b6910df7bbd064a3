package storetest

import (
	"sync"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Text 1: tenure by compare-and-swap.
var tenureTests = []Test{
	{Name: "FreshCell", Run: freshCell},
	{Name: "OneOfManyClaimantsFoundsTheCell", Run: manyClaimants},
	{Name: "LostAnswerOfAClaim", Run: lostClaim},
	{Name: "KillBetweenClaimAndOpening", Run: killBeforeOpening},
	{Name: "StandbyWaitsWhileTheActiveServerLives", Run: standbyWaits},
	{Name: "StandbyTakesOverFromASilentServer", Run: standbyTakesOver},
	{Name: "SignOfLifeDefeatsAClaimOnItsWay", Run: lateSignOfLife},
	{Name: "ResignedTenureIsFreeAtOnce", Run: resigned},
	{Name: "PausedActiveServer", Run: pausedActive},
	{Name: "ActiveNode", Run: activeNode},
	{Name: "ForeignEntries", Run: foreignEntries},
	{Name: "TenureDeletedByHand", Run: tenureDeleted},
}

func freshCell(t T, p *Place) {
	c := newCell(t, p)
	w := c.claim(c.server(), hasty)
	if !w.ten.Opened() || w.ten.Epoch() != 1 {
		t.Fatalf("a fresh cell: opened %v, epoch %d", w.ten.Opened(), w.ten.Epoch())
	}
	if p.Batch(t, 1) == nil {
		t.Errorf("the tenure of a fresh cell is there and its first batch is not")
	}
	w.appendMany(3)
	after := c.takeOver()
	if after.ten.Opened() || after.ten.Epoch() != 2 {
		t.Errorf("the second tenure: opened %v, epoch %d", after.ten.Opened(), after.ten.Epoch())
	}
	after.appendMany(3)
	c.takeOver()
}

func manyClaimants(t T, p *Place) {
	c := newCell(t, p)
	const servers = 5
	writers := make([]*writer, servers)
	var wg sync.WaitGroup
	for i := range servers {
		srv := c.server()
		wg.Go(func() {
			w, err := c.tryClaim(t.Context(), srv, hasty)
			if err != nil {
				t.Errorf("claim: %v", err)
				return
			}
			writers[i] = w
		})
	}
	wg.Wait()
	opened, epochs := 0, map[uint64]bool{}
	for _, w := range writers {
		if w == nil {
			t.Fatalf("a claimant has no tenure")
		}
		if w.ten.Opened() {
			opened++
		}
		epochs[w.ten.Epoch()] = true
	}
	if opened != 1 || len(epochs) != servers {
		t.Errorf("%d claimants: %d founded the cell, %d epochs", servers, opened, len(epochs))
	}
	inForce := 0
	for _, w := range writers {
		if w.ten.Confirm(t.Context()) == nil {
			inForce++
		}
	}
	if inForce != 1 {
		t.Errorf("%d tenures are in force", inForce)
	}
	c.takeOver()
}

func lostClaim(t T, p *Place) {
	c := newCell(t, p)
	epoch := uint64(0)
	for _, fate := range []faulty.Fault{loseAnswer, refused} {
		for _, what := range []kvlog.What{kvlog.WhatFresh, kvlog.WhatClaim} {
			if what == kvlog.WhatFresh && epoch > 0 {
				continue // a cell is founded once
			}
			srv := c.server()
			once(srv, what, fate)
			w := c.claim(srv, hasty)
			epoch++
			if w.ten.Epoch() != epoch {
				t.Errorf("%s with a lost answer: epoch %d, want %d", what, w.ten.Epoch(), epoch)
			}
			w.begin()
			w.appendMany(2)
		}
	}
	c.takeOver()
}

func killBeforeOpening(t T, p *Place) {
	c := newCell(t, p)
	first := c.takeOver()
	first.appendMany(5)
	for range 3 {
		killed := c.server()
		w := c.claim(killed, hasty)
		killed.Crash()
		ends(t, "confirm of a crashed server", w.ten.Confirm(t.Context()), faulty.ErrCrashed)
	}
	for range 3 {
		killed := c.server()
		w := c.claim(killed, hasty)
		if err := w.replay(); err != nil {
			t.Fatalf("replay: %v", err)
		}
		killed.Crash()
	}
	last := c.takeOver()
	if last.ten.Epoch() != 8 {
		t.Errorf("epoch %d after seven tenures", last.ten.Epoch())
	}
	last.append()
	c.takeOver()
}

func resigned(t T, p *Place) {
	c := newCell(t, p)
	a := c.claim(p.Server(t, How{ActiveTTL: Never}), c.node())
	a.appendMany(2)
	n, _ := a.next()
	if err := a.ten.Resign(t.Context()); err != nil {
		t.Fatalf("resign: %v", err)
	}
	if err := a.ten.Resign(t.Context()); err != nil {
		t.Errorf("resign again: %v", err)
	}
	ends(t, "append after resigning", a.send(n), store.ErrFenced)
	ends(t, "confirm after resigning", a.ten.Confirm(t.Context()), store.ErrFenced)
	node, err := a.srv.Active(t.Context())
	if err != nil || node != (store.Node{}) {
		t.Errorf("active after resigning: %+v, %v", node, err)
	}
	b := c.claim(p.Server(t, How{ActiveTTL: Never}), c.node())
	b.begin()
	b.append()
	if err := a.ten.Resign(t.Context()); err != nil {
		t.Errorf("resign under the next tenure: %v", err)
	}
	b.append()
	c.takeOver()
}

func activeNode(t T, p *Place) {
	c := newCell(t, p)
	srv := p.Server(t, How{ActiveTTL: Never})
	node, err := srv.Active(t.Context())
	if err != nil || node != (store.Node{}) {
		t.Errorf("active in an empty store: %+v, %v", node, err)
	}
	self := c.node()
	self.HTTP = "127.0.0.1:7421"
	c.claim(srv, self)
	node, err = c.server().Active(t.Context())
	if err != nil || node != self {
		t.Errorf("active: %+v, %v, want %+v", node, err, self)
	}
}

// foreignEntries: what others keep in the same store is not taken for ours.
func foreignEntries(t T, p *Place) {
	p.Foreign(t)
	c := newCell(t, p)
	for range 3 {
		w := c.takeOver()
		w.appendMany(20)
		if err := w.snapshot(); err != nil {
			t.Errorf("snapshot: %v", err)
		}
		w.append()
		p.Foreign(t)
	}
	c.takeOver()
}

// tenureDeleted: an operator removes the record of who is active. The active
// server is told, the next goes on, and nothing starts again from one.
func tenureDeleted(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver()
	a := c.takeOver()
	a.appendMany(3)
	p.DropTenure(t)
	newRepeater(t, p).again("once the tenure is gone")
	ends(t, "confirm", a.ten.Confirm(t.Context()), store.ErrFenced)
	n, _ := a.next()
	ends(t, "append", a.send(n), store.ErrFenced)
	b := c.takeOver()
	if b.ten.Epoch() <= a.ten.Epoch() {
		t.Errorf("epoch %d after %d", b.ten.Epoch(), a.ten.Epoch())
	}
	b.append()
	c.takeOver()
}
