package storetest

import (
	"fmt"
	"strings"

	"github.com/pawlproject/pawl/internal/store"
)

// Text 4: what replay must find out.
var damageTests = []Test{
	{Name: "Damage", Run: damage},
	{Name: "DamagedSnapshot", Run: damagedSnapshot},
	{Name: "TenureWithoutALog", Run: noLog},
	{Name: "LossThatCannotShow", Run: lossUnseen},
	{Name: "ReplayTwice", Run: replayTwice},
}

// broken claims and replays, and wants damage that names what.
func broken(t T, c *cell, doing, what string) {
	t.Helper()
	w := c.claim(c.server(), hasty)
	err := w.replay()
	ends(t, "replay after "+doing, err, store.ErrDamaged)
	if err != nil && !strings.Contains(err.Error(), what) {
		t.Errorf("replay after %s: %q does not name %s", doing, err, what)
	}
	if err == nil {
		return
	}
	if err := w.open(); err == nil {
		t.Errorf("open after %s", doing)
	}
}

// damage does one harm after the other to a log of some batches, mends it and
// sees that it is whole again.
func damage(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(11)
	const k = 6
	whole := p.Batch(t, k)
	after := p.Batch(t, k+1)
	last := p.Batch(t, w.last)
	first := p.Batch(t, 1)
	restamped := func(epoch, number uint64) []byte {
		h, err := store.HeaderOf(whole)
		if err != nil {
			t.Fatalf("read batch %d: %v", k, err)
		}
		raw, _ := c.seal(epoch, h.Nonce, number, h.Previous, 1, 1)
		return raw
	}
	for _, harm := range []struct {
		doing, names string
		n            uint64
		raw, was     []byte
	}{
		{"dropping a batch known durable", "batch 6", k, nil, whole},
		{"dropping the first batch", "batch 1 ", 1, nil, first},
		{"flipping a bit", "batch 6", k, flip(whole), whole},
		{"flipping a bit of the last batch", fmt.Sprintf("batch %d", w.last), w.last, flip(last), last},
		{"emptying a batch", "batch 6", k, []byte{}, whole},
		{"putting the next one in its place", "batch 6", k, after, whole},
		{"another batch of that number", "batch", k, restamped(1, k), whole},
		{"a batch of a later epoch", "batch 6", k, restamped(1<<40, k), whole},
		{"an envelope of another format", "batch 6", k, append([]byte{0x08, 0x02}, whole[2:]...), whole},
	} {
		if harm.raw == nil {
			p.DropBatch(t, harm.n)
		} else {
			p.SetBatch(t, harm.n, harm.raw)
		}
		broken(t, c, harm.doing, harm.names)
		p.SetBatch(t, harm.n, harm.was)
	}

	// No batch behind the hole can be read any more; where they lie shows that
	// the missing one had been durable when they went out.
	p.DropBatch(t, k)
	for n := uint64(k + 1); n <= w.last; n++ {
		p.SetBatch(t, n, flip(w.raw[n]))
	}
	broken(t, c, "dropping a batch and harming all behind it", "batch 6")
	p.SetBatch(t, k, whole)
	for n := uint64(k + 1); n <= w.last; n++ {
		p.SetBatch(t, n, w.raw[n])
	}
	c.takeOver().append()
	c.takeOver()
}

func damagedSnapshot(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(30)
	if err := w.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	m := w.durable
	w.appendMany(3)
	at := p.Batch(t, m)
	p.SetBatch(t, m, flip(at))
	broken(t, c, "flipping a bit of the batch that a snapshot follows", fmt.Sprintf("batch %d", m))
	p.SetBatch(t, m, at)
	next := p.Batch(t, m+1)
	p.DropBatch(t, m+1)
	broken(t, c, "dropping the batch behind a snapshot", fmt.Sprintf("batch %d", m+1))
	p.SetBatch(t, m+1, next)
	c.takeOver()
	for _, i := range []int{1, 0} {
		p.DropChunk(t, i)
		broken(t, c, "dropping a chunk", "chunk")
	}
}

func noLog(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().appendMany(3)
	p.DropLog(t)
	broken(t, c, "dropping the log", "batch 1")
}

// lossUnseen: the last batch is gone, and no other batch shows that it was durable. The
// store cannot notice that. The cell notices it by the tokens that clients report.
func lossUnseen(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(5)
	p.DropBatch(t, w.last)
	fresh := newCell(t, p)
	fresh.marks = 1000
	b := fresh.takeOver()
	if b.last != w.last {
		t.Errorf("the opening batch is %d, want %d", b.last, w.last)
	}
	b.append()
	fresh.takeOver()
}

// replayTwice: a replay that a callback ended, or that is done once more,
// changes nothing.
func replayTwice(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().appendMany(5)
	w := c.claim(c.server(), hasty)
	stop := fmt.Errorf("enough")
	_, err := w.ten.Replay(t.Context(), nil, func(n uint64, _ []byte) error {
		if n == 3 {
			return stop
		}
		return nil
	})
	ends(t, "a replay that was stopped", err, stop)
	for range 2 {
		if err := w.replay(); err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	if err := w.open(); err != nil {
		t.Fatalf("open: %v", err)
	}
	w.append()
	c.takeOver()
}
