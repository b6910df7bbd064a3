package storetest

import (
	"sync"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Text 5: snapshots.
var snapshotTests = []Test{
	{Name: "SnapshotUnderLoad", Run: snapshotUnderLoad},
	{Name: "KillAtEveryStepOfASnapshot", Run: snapshotKilled},
	{Name: "LostAnswersOfASnapshot", Run: snapshotLost},
	{Name: "SnapshotKeepsTheLastBatches", Run: snapshotKeeps},
	{Name: "SnapshotThatDoesNotFit", Run: snapshotRefused},
	{Name: "TakeOverAtASnapshot", Run: snapshotHead},
}

func snapshotUnderLoad(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().appendMany(5)
	w := c.takeOver()
	const batches = 120
	var wg sync.WaitGroup
	tick := make(chan struct{}, batches)
	wg.Go(func() {
		for range tick {
			if err := w.snapshot(); err != nil {
				t.Errorf("snapshot under load: %v", err)
			}
		}
	})
	for i := 0; i < batches; i += store.InFlight {
		var flight sync.WaitGroup
		for range store.InFlight {
			n, _ := w.next()
			flight.Go(func() {
				if err := w.send(n); err != nil {
					t.Errorf("append %d under a snapshot: %v", n, err)
				}
			})
		}
		if i%(5*store.InFlight) == 0 {
			tick <- struct{}{}
		}
		if err := w.ten.Confirm(t.Context()); err != nil {
			t.Errorf("confirm under a snapshot: %v", err)
		}
		flight.Wait()
	}
	close(tick)
	wg.Wait()
	c.takeOver().append()
	c.takeOver()
}

// steps of a snapshot, in order.
var steps = []kvlog.What{kvlog.WhatChunk, kvlog.WhatPublish, kvlog.WhatTruncate, kvlog.WhatSweep}

// snapshotKilled: the server dies before, and after, each kind of write.
func snapshotKilled(t T, p *Place) {
	c := newCell(t, p)
	first := c.takeOver()
	first.appendMany(20)
	if err := first.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	for _, step := range steps {
		for _, landed := range []bool{false, true} {
			srv := c.server()
			w := c.claim(srv, hasty)
			w.begin()
			w.appendMany(15)
			fate := refused
			if landed {
				fate = loseAnswer
			}
			once(srv, step, fate)
			if w.snapshot() == nil {
				t.Errorf("a snapshot whose %s was not answered succeeds", step)
			}
			srv.Crash()
		}
	}
	last := c.takeOver()
	last.append()
	if err := last.snapshot(); err != nil {
		t.Errorf("snapshot: %v", err)
	}
	c.takeOver()
}

// snapshotLost: the server lives and tries again.
func snapshotLost(t T, p *Place) {
	c := newCell(t, p)
	srv := c.server()
	w := c.claim(srv, hasty)
	w.begin()
	for _, step := range steps {
		for _, fate := range []faulty.Fault{loseAnswer, refused} {
			w.appendMany(15)
			if err := w.snapshot(); err != nil {
				t.Fatalf("snapshot: %v", err)
			}
			w.appendMany(15)
			once(srv, step, fate)
			if w.snapshot() == nil {
				t.Errorf("a snapshot whose %s was not answered succeeds", step)
			}
			if err := w.snapshot(); err != nil {
				t.Errorf("snapshot again after a %s that was not answered: %v", step, err)
			}
			w.append()
		}
	}
	c.takeOver()
}

func snapshotKeeps(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(40)
	m := w.durable
	if err := w.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	for n := uint64(1); n <= m; n++ {
		kept := n+2*store.InFlight > m
		if got := p.Batch(t, n) != nil; got != kept {
			t.Errorf("after a snapshot at %d batch %d is there: %v, want %v", m, n, got, kept)
		}
	}
	w.append()
	c.takeOver()
}

// snapshotRefused: none of these may be published.
func snapshotRefused(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(20)
	if err := w.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	old := w.durable
	w.appendMany(5)
	before := p.Picture(t)
	ahead, _ := w.next()
	m := w.durable
	all := w.chunks(m)
	for doing, err := range map[string]error{
		"after a batch that is not durable":  w.ten.Snapshot(t.Context(), ahead, w.chunks(ahead)),
		"after an older batch":               w.ten.Snapshot(t.Context(), old-1, w.chunks(old-1)),
		"of no chunk":                        w.ten.Snapshot(t.Context(), m, func(func([]byte) bool) {}),
		"with the chunks of another batch":   w.ten.Snapshot(t.Context(), m-1, all),
		"without its first chunk":            w.ten.Snapshot(t.Context(), m-1, skip(w.chunks(m-1), 1)),
		"without its last chunk":             w.ten.Snapshot(t.Context(), m-2, func(yield func([]byte) bool) { w.chunks(m - 2)(func(raw []byte) bool { yield(raw); return false }) }),
		"with a chunk of more than BatchMax": w.ten.Snapshot(t.Context(), m-1, func(yield func([]byte) bool) { yield(make([]byte, store.BatchMax+1)) }),
	} {
		if err == nil {
			t.Errorf("a snapshot %s is published", doing)
		}
	}
	same(t, "snapshots that do not fit", before, p.Picture(t))
	if err := w.send(ahead); err != nil {
		t.Fatalf("append: %v", err)
	}
	if err := w.snapshot(); err != nil {
		t.Errorf("snapshot: %v", err)
	}
	c.takeOver()
}

func skip(chunks func(func([]byte) bool), n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		i := 0
		for raw := range chunks {
			if i++; i > n && !yield(raw) {
				return
			}
		}
	}
}

// snapshotHead: nothing follows the snapshot, with the batch it follows still
// in the log and without.
func snapshotHead(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(20)
	if err := w.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	b := c.takeOver()
	b.append()
	if err := b.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	p.DropLog(t)
	d := c.takeOver()
	if d.last != b.last+1 {
		t.Errorf("the opening batch is %d, want %d", d.last, b.last+1)
	}
	d.appendMany(3)
	c.takeOver()
}
