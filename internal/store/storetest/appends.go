package storetest

import (
	"bytes"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Text 3: every write is harmless if it lands again, later.
var lateTests = []Test{
	{Name: "IdempotentRetry", Run: retry},
	{Name: "LostAnswerOverATakeOver", Run: lostOverTakeOver},
	{Name: "AnotherBatchUnderTheSameNumber", Run: anotherBatch},
	{Name: "AppendsArriveInTheOtherOrder", Run: reordered},
	{Name: "HoleIsCut", Run: holeIsCut},
	{Name: "HoleIsFilled", Run: holeIsFilled},
	{Name: "LateDuplicatesOfEveryWrite", Long: true, Run: lateDuplicates},
	{Name: "WritesThatLandOnlyLater", Long: true, Run: landOnlyLater},
	{Name: "Turmoil", Long: true, Run: turmoil},
}

func retry(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().append()
	for _, fate := range []faulty.Fault{loseAnswer, refused} {
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
//  1. A's append landed and its answer is lost.
//  2. B claims, and has not read the log yet.
//  3. A tries again and finds its own batch. It must not report success: the batch
//     stands behind a hole, and B will cut it.
func lostOverTakeOver(t T, p *Place) {
	c := newCell(t, p)
	srv := c.server()
	a := c.claim(srv, hasty)
	a.begin()
	lost, _ := a.next()
	n, _ := a.next()
	once(srv, kvlog.WhatAppend, loseAnswer)
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
		srv.Plan(func(what kvlog.What) faulty.Fault {
			if what != kvlog.WhatAppend {
				return faulty.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			delay -= gap
			return faulty.Fault{Delay: delay}
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
