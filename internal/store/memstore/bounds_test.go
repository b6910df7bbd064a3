package memstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

func openingBatch(uint64, store.Nonce) []byte { return batch(1) }

// batch is a batch that says no more than which it is.
func batch(n uint64) []byte {
	raw, _, err := store.SealBatch(&recordpb.Batch{Epoch: 1, Number: n, Durable: n - 1, Nonce: make([]byte, len(store.Nonce{}))})
	if err != nil {
		panic(err)
	}
	return raw
}

// C10: a new cell can be created although up to 32 foreign keys lie among its batches'
// keys. It would have to name more in one transaction, so with more it reports them
// instead.
func TestForeignKeysAreBounded(t *testing.T) {
	for n, fits := range map[int]bool{32: true, 33: false} {
		disk := memstore.NewDisk()
		for i := range n {
			put := kvlog.Op{Kind: kvlog.OpPut, Key: fmt.Sprintf("log/1/%02d", i)}
			if _, err := disk.Txn(t.Context(), kvlog.Txn{Then: []kvlog.Op{put}}); err != nil {
				t.Fatal(err)
			}
		}
		s := disk.Store(memstore.Options{Clock: clock.System(), Sole: true})
		_, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, openingBatch)
		switch {
		case fits && err != nil:
			t.Errorf("%d foreign keys: %v", n, err)
		case !fits && (!errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "33 keys that are none of ours")):
			t.Errorf("%d foreign keys: %v", n, err)
		}
	}
}

// The log behind a snapshot is removed a bounded number of batches at a time: a
// store that replicates its transactions stands still for each.
func TestLogIsTruncatedInPortions(t *testing.T) {
	const batches, most = 1600, 512
	disk := memstore.NewDisk()
	journal := disk.Record()
	s := disk.Store(memstore.Options{Clock: clock.System(), Sole: true})
	tenure, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, openingBatch)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(2); n <= batches; n++ {
		if err := tenure.Append(t.Context(), n, batch(n)); err != nil {
			t.Fatal(err)
		}
	}
	head, err := store.HeaderOf(batch(batches))
	if err != nil {
		t.Fatal(err)
	}
	chunk, _, err := store.SealChunk(&recordpb.Chunk{Number: batches, Previous: head.Sum[:], Last: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := tenure.Snapshot(t.Context(), batches, slices.Values([][]byte{chunk})); err != nil {
		t.Fatal(err)
	}
	var removed, portions uint64
	for i := range journal.Len() {
		txn := journal.At(i)
		if txn.What != kvlog.WhatTruncate {
			continue
		}
		portions++
		for _, op := range txn.Then {
			n := number(t, op.End) - number(t, op.Key)
			if op.Kind != kvlog.OpDelete || n > most {
				t.Errorf("a transaction has %+v: %d batches", op, n)
			}
			removed += n
		}
	}
	// The last 2W stay.
	if want := uint64(batches - 2*store.InFlight); removed < want-1 || removed > want+1 || portions != 4 {
		t.Errorf("%d batches were removed in %d portions, of %d", removed, portions, batches)
	}
}

func number(t *testing.T, key string) (n uint64) {
	t.Helper()
	if _, err := fmt.Sscanf(strings.TrimLeft(strings.TrimPrefix(key, "log/"), "0"), "%d", &n); err != nil {
		t.Fatalf("%q: %v", key, err)
	}
	return n
}
