package storetest

import (
	"bytes"
	"sync"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/store"
)

// Sizes, room and other limits.
var limitTests = []Test{
	{Name: "SizesAtTheLimits", Run: sizes},
	{Name: "ThroughputOfManyTenures", Run: manyTenures},
	{Name: "Usage", Run: usage},
	{Name: "FullAndRoomAgain", Needs: NeedFull, Run: full},
}

// sized seals a batch of exactly size bytes.
func (w *writer) sized(n uint64, size int) []byte {
	nonce := w.ten.Nonce()
	build := func(label int) []byte {
		raw, _, err := store.SealBatch(&recordpb.Batch{
			Epoch: w.ten.Epoch(), Number: n, Previous: w.sum, Durable: w.durable, Nonce: nonce[:],
			Events: []*recordpb.Event{{Kind: recordpb.Kind_KIND_FLOOR, Token: 1, Label: string(make([]byte, label))}},
		})
		if err != nil {
			w.t.Fatalf("seal: %v", err)
		}
		return raw
	}
	label := size - len(build(size)) + size
	for len(build(label)) < size {
		label++
	}
	raw := build(label)
	if len(raw) != size {
		w.t.Fatalf("cannot seal a batch of %d bytes: %d", size, len(raw))
	}
	return raw
}

func sizes(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	n := w.last + 1
	if err := w.ten.Append(t.Context(), n, w.sized(n, store.BatchMax+1)); err == nil {
		t.Errorf("a batch of more than BatchMax landed")
	}
	if err := w.ten.Append(t.Context(), n, nil); err == nil {
		t.Errorf("an empty batch landed")
	}
	if p.Batch(t, n) != nil {
		t.Errorf("a batch that was refused is there")
	}
	raw := w.sized(n, store.BatchMax)
	if err := w.ten.Append(t.Context(), n, raw); err != nil {
		t.Fatalf("a batch of BatchMax: %v", err)
	}
	if !bytes.Equal(p.Batch(t, n), raw) {
		t.Errorf("a batch of BatchMax is not what was appended")
	}
	b := c.claim(c.server(), hasty)
	var got []byte
	if _, err := b.ten.Replay(t.Context(), nil, func(m uint64, raw []byte) error {
		if m == n {
			got = bytes.Clone(raw)
		}
		return nil
	}); err != nil {
		t.Fatalf("replay: %v", err)
	}
	if !bytes.Equal(got, raw) {
		t.Errorf("a batch of BatchMax is not what is replayed")
	}
}

func manyTenures(t T, p *Place) {
	c := newCell(t, p)
	var wg sync.WaitGroup
	for range 30 {
		w := c.takeOver()
		for range store.InFlight {
			n, _ := w.next()
			wg.Go(func() {
				if err := w.send(n); err != nil {
					t.Errorf("append %d: %v", n, err)
				}
			})
		}
		wg.Wait()
	}
	c.takeOver()
}

func usage(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	before, err := w.ten.Usage(t.Context())
	if err != nil {
		t.Fatalf("usage: %v", err)
	}
	grown := func() bool {
		now, err := w.ten.Usage(t.Context())
		if err != nil {
			t.Fatalf("usage: %v", err)
		}
		return now.Used == 0 || now.Used >= before.Used+store.BatchMax
	}
	// A store may count what is not yet in its file only later.
	const most = 300
	for i := 0; !grown(); i++ {
		if i == most {
			t.Fatalf("%d MiB more, and the use is %d as before", most/2, before.Used)
		}
		n := w.last + 1
		raw := w.sized(n, store.BatchMax/2)
		if err := w.ten.Append(t.Context(), n, raw); err != nil {
			t.Fatalf("append: %v", err)
		}
		h, err := store.HeaderOf(raw)
		if err != nil {
			t.Fatalf("read what was sealed: %v", err)
		}
		w.last, w.sum, w.durable = n, h.Sum[:], n
	}
}

func full(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(3)
	n, _ := w.next()
	p.SetFull(true)
	ends(t, "append to a full store", w.send(n), store.ErrFull)
	if err := w.ten.Confirm(t.Context()); err != nil {
		t.Errorf("confirm on a full store: %v", err)
	}
	p.SetFull(false)
	if err := w.send(n); err != nil {
		t.Errorf("append once there is room: %v", err)
	}
	w.append()
	c.takeOver()
}
