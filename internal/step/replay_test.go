package step

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// written is a tenure of an epoch over a log that a test wrote. Its other methods are
// not called.
type written struct {
	store.Tenure
	epoch   uint64
	after   uint64 // the batch that the chunks follow
	chunks  [][]byte
	batches [][]byte
}

func (w written) Epoch() uint64 { return w.epoch }

func (w written) Replay(_ context.Context, chunk, batch func(uint64, []byte) error) (head uint64, err error) {
	head = w.after
	for _, raw := range w.chunks {
		if err := chunk(w.after, raw); err != nil {
			return 0, err
		}
	}
	for _, raw := range w.batches {
		head++
		if err := batch(head, raw); err != nil {
			return 0, err
		}
	}
	return head, nil
}

// A log that cannot be what tenures of this cell wrote, one after the other, is damaged.
// What was granted in it cannot be known, so nothing is served from it.
func TestReplayRefusesInconsistentLog(t *testing.T) {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	nonce := store.Nonce{1}
	c, opening := Found(Founding{Cell: "test-0123456789abcdef", Secret: []byte("secret"), Limits: bounds.DefaultLimits}, 1, nonce, wall, 0)
	c.Begun(clock.Reading{})
	sumOf := func(raw []byte) []byte {
		h, err := store.HeaderOf(raw)
		if err != nil {
			t.Fatal(err)
		}
		return h.Sum[:]
	}
	seal := func(b *recordpb.Batch) []byte {
		b.Nonce = nonce[:]
		raw, _, err := store.SealBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	chunk := func(last bool) []byte {
		raw, _, err := store.SealChunk(&recordpb.Chunk{
			Number: 1, Previous: sumOf(opening), Last: last, Events: slices.Collect(c.Table().Freeze(locktable.Now{}).Events()),
		})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	second := func(change func(*recordpb.Batch)) []byte {
		b := &recordpb.Batch{Epoch: 1, Number: 2, Durable: 1, Previous: sumOf(opening)}
		change(b)
		return seal(b)
	}
	good := second(func(*recordpb.Batch) {})
	newer := second(func(b *recordpb.Batch) { b.Epoch = 2 })
	for what, x := range map[string]struct {
		log  written
		fits bool
	}{
		"log":                                    {written{epoch: 2, batches: [][]byte{opening, good}}, true},
		"snapshot and log":                       {written{epoch: 2, after: 1, chunks: [][]byte{chunk(true)}, batches: [][]byte{good}}, true},
		"batch of a later tenure":                {written{epoch: 3, batches: [][]byte{opening, newer}}, true},
		"log of the tenure that was claimed":     {written{epoch: 1, batches: [][]byte{opening, good}}, false},
		"nothing":                                {written{epoch: 2}, false},
		"batch after the end was known durable":  {written{epoch: 2, batches: [][]byte{opening, second(func(b *recordpb.Batch) { b.Durable = 3 })}}, false},
		"batch that follows another":             {written{epoch: 2, batches: [][]byte{opening, second(func(b *recordpb.Batch) { b.Previous = make([]byte, 32) })}}, false},
		"batch of another number":                {written{epoch: 2, batches: [][]byte{opening, second(func(b *recordpb.Batch) { b.Number = 3 })}}, false},
		"batch of an earlier tenure":             {written{epoch: 3, batches: [][]byte{opening, newer, seal(&recordpb.Batch{Epoch: 1, Number: 3, Durable: 1, Previous: sumOf(newer)})}}, false},
		"snapshot without its last chunk":        {written{epoch: 2, after: 1, chunks: [][]byte{chunk(false)}, batches: [][]byte{good}}, false},
		"snapshot with a chunk after its last":   {written{epoch: 2, after: 1, chunks: [][]byte{chunk(true), chunk(true)}, batches: [][]byte{good}}, false},
		"batch that does not follow a snapshot":  {written{epoch: 2, after: 1, chunks: [][]byte{chunk(true)}, batches: [][]byte{second(func(b *recordpb.Batch) { b.Previous = make([]byte, 32) })}}, false},
		"snapshot that follows another's number": {written{epoch: 2, after: 2, chunks: [][]byte{chunk(true)}}, false},
	} {
		_, err := Replay(func(chunk, batch func(uint64, []byte) error) (uint64, error) {
			return x.log.Replay(t.Context(), chunk, batch)
		}, x.log.epoch, bounds.DefaultLimits)
		if x.fits && err != nil || !x.fits && !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
