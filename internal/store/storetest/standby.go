package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// soon is an active-ttl that a test can wait for.
const soon = 200 * time.Millisecond

// steady is one that a slow machine does not reach: a tenure whose signs of life
// are not answered for that long ends itself.
const steady = 10 * time.Second

// standbyWaits has the standby look on while the active server works: its own
// patience would last for ever.
func standbyWaits(t T, p *Place) {
	c := newCell(t, p)
	a := c.claim(p.Server(t, How{ActiveTTL: steady}), c.node())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := p.Server(t, How{ActiveTTL: Never})
	node := c.node()
	looked, claimed := make(chan struct{}), make(chan error, 1)
	when(b, kvlog.WhatRead, func() { close(looked) })
	go func() {
		_, err := c.tryClaim(ctx, b, node)
		claimed <- err
	}()
	await(t, p, "the standby's first look", looked)
	a.appendMany(20)
	if err := a.ten.Confirm(t.Context()); err != nil {
		t.Errorf("confirm while a standby looks on: %v", err)
	}
	cancel()
	if err := await(t, p, "the standby", claimed); err == nil {
		t.Errorf("the standby has a tenure while the active server lives")
	}
}

func standbyTakesOver(t T, p *Place) {
	c := newCell(t, p)
	active := p.Server(t, How{ActiveTTL: steady})
	a := c.claim(active, c.node())
	a.appendMany(3)
	active.Crash()
	b := c.claim(p.Server(t, How{ActiveTTL: soon, FastClock: true}), c.node())
	b.begin()
	b.append()
	c.takeOver()
}

// lateSignOfLife: the standby has lost patience and its claim is on its way;
// the active server, stopped until then, gives a sign of life; the claim lands
// and must do nothing.
func lateSignOfLife(t T, p *Place) {
	c := newCell(t, p)
	active := p.Server(t, How{ActiveTTL: steady})
	a := c.claim(active, c.node())
	a.append()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	standby := p.Server(t, How{ActiveTTL: soon, FastClock: true})
	tried := false
	standby.Plan(func(what kvlog.What) faulty.Fault {
		switch {
		case what == kvlog.WhatClaim && !tried:
			tried = true
			alive := sign(active)
			active.Resume()
			await(t, p, "signs of life", alive)
		case tried:
			cancel() // the claim was answered, and the standby looks again
		}
		return faulty.Fault{}
	})
	active.Stall()
	if w, err := c.tryClaim(ctx, standby, c.node()); err == nil {
		t.Errorf("a claim overtook a sign of life: epoch %d", w.ten.Epoch())
	}
	if !tried {
		t.Fatalf("the standby did not lose patience")
	}
	a.append()
	c.takeOver()
}

// sign is closed once the server has given two more signs of life: the second
// goes out when the first was answered.
func sign(s *Server) <-chan struct{} {
	alive := make(chan struct{})
	var mu sync.Mutex
	beats := 0
	s.Plan(func(what kvlog.What) faulty.Fault {
		mu.Lock()
		defer mu.Unlock()
		if what == kvlog.WhatBeat {
			if beats++; beats == 2 {
				close(alive)
			}
		}
		return faulty.Fault{}
	})
	return alive
}

// pausedActive: everything of the active server is held while another takes
// over, and goes on afterwards.
func pausedActive(t T, p *Place) {
	c := newCell(t, p)
	active := p.Server(t, How{ActiveTTL: steady})
	a := c.claim(active, c.node())
	a.appendMany(3)
	active.Stall()
	n, _ := a.next()
	outcome := make(chan error, 4)
	go func() { outcome <- a.send(n) }()
	go func() { outcome <- a.ten.Confirm(t.Context()) }()
	b := c.takeOver()
	b.appendMany(2)
	before := p.Picture(t)
	active.Resume()
	ends(t, "a call held over a take-over", await(t, p, "a held call", outcome), store.ErrFenced)
	ends(t, "a call held over a take-over", await(t, p, "a held call", outcome), store.ErrFenced)
	over(a)
	same(t, "the paused server went on", before, p.Picture(t))
	b.append()
	c.takeOver()
}

// silentTenure: the active server is stopped, a standby takes over and works, and the
// store is set back to before that. The old tenure is in force again. Its server never
// learned of another one, and must not go on with it.
func silentTenure(t T, p *Place) {
	c := newCell(t, p)
	active := p.Server(t, How{ActiveTTL: soon})
	a := c.claim(active, c.node())
	active.Stall()
	restore := p.Save()
	n, _ := a.next()
	b := newCell(t, p)
	b.marks = 1000
	w := b.claim(p.Server(t, How{ActiveTTL: soon}), b.node())
	w.begin()
	w.append()
	restore()
	active.Resume()
	ends(t, "append after a silence", a.ten.Append(t.Context(), n, a.raw[n]), store.ErrFenced, store.ErrRolledBack)
	over(a)
	// The cell goes on with what is there.
	newCell(t, p).takeOver().append()
}
