package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pawlproject/pawl/api/recordpb"
)

// What is not a batch is damage, whatever it is; and who reads the header alone
// reads the same.
func FuzzOpenBatch(f *testing.F) {
	raw, _, err := SealBatch(&recordpb.Batch{
		Epoch: 3, Number: 7, Durable: 6, Nonce: make([]byte, 16), Previous: make([]byte, 32),
		Events: []*recordpb.Event{{Kind: recordpb.Kind_KIND_FLOOR, Token: 9}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, sum, err := OpenBatch(raw)
		h, headErr := HeaderOf(raw)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("not damage: %v", err)
			}
			return
		}
		if headErr != nil {
			t.Fatalf("the batch opens and its header does not: %v", headErr)
		}
		if h.Epoch != b.Epoch || h.Number != b.Number || h.Durable != b.Durable || h.Sum != sum || !bytes.Equal(h.Previous, b.Previous) {
			t.Fatalf("the header is %+v and the batch %+v", h, b)
		}
	})
}

func FuzzOpenChunk(f *testing.F) {
	raw, _, err := SealChunk(&recordpb.Chunk{Number: 7, Previous: make([]byte, 32), Index: 1, Last: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[1:])
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, _, err := OpenChunk(raw)
		h, headErr := ChunkHeaderOf(raw)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("not damage: %v", err)
			}
			return
		}
		if headErr != nil || h.Number != c.Number || uint32(h.Index) != c.Index || h.Last != c.Last {
			t.Fatalf("the header is %+v (%v) and the chunk %+v", h, headErr, c)
		}
	})
}
