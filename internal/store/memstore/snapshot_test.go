package memstore_test

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A snapshot shows every batch before its own, so it is published only where all of
// them are as they were acknowledged.
//
//  1. batch 3 is acknowledged; batch 4, sent before that, is on its way
//  2. the store is set back to where it held 2, and goes on
//  3. batch 4 lands behind the hole and is acknowledged: it compares what was durable
//     when it was sent
//  4. a snapshot after batch 4 finds that batch as it was put
func TestSnapshotIsNotPublishedOverMissingBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
		t.Cleanup(s.Crash)
		ten := claims(t, s, 1)
		send := func(n uint64) error { return ten.Append(t.Context(), n, sealed(t, 1, ten.Nonce(), n)) }
		if err := send(2); err != nil {
			t.Fatal(err)
		}
		state := disk.Save()
		s.Plan(fates(map[kvlog.What][]faulty.Fault{kvlog.WhatAppend: {{Delay: time.Second}, {}}}))
		fourth := make(chan error, 1)
		go func() { fourth <- send(4) }()
		synctest.Wait()
		if err := send(3); err != nil {
			t.Fatal(err)
		}
		disk.Restore(state)
		for range 10 {
			do(t, disk, put("other", "x"))
		}
		if err := <-fourth; err != nil {
			t.Fatalf("batch 4, which was on its way: %v", err)
		}
		err := ten.Snapshot(t.Context(), 4, snapshotOf(t, 1, ten.Nonce(), 4))
		if !errors.Is(err, store.ErrRolledBack) || disk.Holds(kvlog.Keys{}.Snapshot()) != nil {
			t.Errorf("a snapshot over the hole that a roll-back left: %v", err)
		}
	})
}

// snapshotOf is the one chunk of a snapshot after batch n, which is of an epoch.
func snapshotOf(t *testing.T, epoch uint64, nonce store.Nonce, n uint64, events ...*recordpb.Event) iter.Seq[[]byte] {
	t.Helper()
	head, err := store.HeaderOf(sealed(t, epoch, nonce, n))
	if err != nil {
		t.Fatal(err)
	}
	chunk, _, err := store.SealChunk(&recordpb.Chunk{Number: n, Previous: head.Sum[:], Last: true, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Values([][]byte{chunk})
}

// A Confirm compares batches that a snapshot may take away before it arrives. That is
// no roll-back.
func TestConfirmOvertakenByTruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
		t.Cleanup(s.Crash)
		ten := claims(t, s, 1)
		s.Plan(fates(map[kvlog.What][]faulty.Fault{kvlog.WhatConfirm: {{Delay: time.Second}, {}}}))
		confirmed := make(chan error, 1)
		go func() { confirmed <- ten.Confirm(t.Context()) }()
		synctest.Wait()
		const last = 20
		for n := uint64(2); n <= last; n++ {
			if err := ten.Append(t.Context(), n, sealed(t, 1, ten.Nonce(), n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := ten.Snapshot(t.Context(), last, snapshotOf(t, 1, ten.Nonce(), last)); err != nil {
			t.Fatal(err)
		}
		if disk.Holds(kvlog.Keys{}.Log(1)) != nil {
			t.Fatal("the snapshot took nothing away")
		}
		if err := <-confirmed; err != nil {
			t.Errorf("a Confirm that was overtaken: %v", err)
		}
	})
}

// A chunk whose answer was lost is found when the snapshot is taken again, and becomes
// part of it. If the second snapshot has another chunk in that place, it is not
// published: it would be a mix of two.
func TestRepeatedSnapshotReusesChunks(t *testing.T) {
	other := &recordpb.Event{Kind: recordpb.Kind_KIND_COUNTER, Token: 7}
	for what, events := range map[string][]*recordpb.Event{"same": nil, "another": {other}} {
		synctest.Test(t, func(t *testing.T) {
			disk := memstore.NewDisk()
			s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
			t.Cleanup(s.Crash)
			ten := claims(t, s, 1)
			s.Plan(fates(map[kvlog.What][]faulty.Fault{kvlog.WhatChunk: {{LoseAnswer: true}, {}}}))
			if err := ten.Snapshot(t.Context(), 1, snapshotOf(t, 1, ten.Nonce(), 1)); err == nil {
				t.Error("a snapshot whose chunk was not answered succeeds")
			}
			do(t, disk, put("other", "x"))
			err := ten.Snapshot(t.Context(), 1, snapshotOf(t, 1, ten.Nonce(), 1, events...))
			if published := disk.Holds(kvlog.Keys{}.Snapshot()) != nil; (err == nil) != (what == "same") || published != (err == nil) {
				t.Errorf("with the %s chunk: published %v, %v", what, published, err)
			}
			if err := ten.Confirm(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// The chunks of the snapshot before go, although keys of others lie among them.
func TestOldChunksAreDeletedBetweenForeignKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
		t.Cleanup(s.Crash)
		ten := claims(t, s, 1)
		const foreign = "snap/0 of others"
		do(t, disk, put(foreign, "x"))
		var keys kvlog.Keys
		chunk := func(n uint64) []byte { return disk.Holds(keys.Chunk(keys.Chunks(n, 1), 0)) }
		for n := uint64(1); n <= 2; n++ {
			if n > 1 {
				if err := ten.Append(t.Context(), n, sealed(t, 1, ten.Nonce(), n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := ten.Snapshot(t.Context(), n, snapshotOf(t, 1, ten.Nonce(), n)); err != nil || chunk(n) == nil {
				t.Fatalf("snapshot after batch %d: %v", n, err)
			}
		}
		if chunk(1) != nil {
			t.Error("the chunks of the snapshot before are still there")
		}
		if disk.Holds(foreign) == nil {
			t.Error("a key of others was swept")
		}
	})
}

// A batch that another one shows to have been durable may not be missing, also where it
// is the last of those that it shows.
func TestMissingDurableBatchIsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
		t.Cleanup(s.Crash)
		ten := claims(t, s, 1)
		for n := uint64(2); n <= 3; n++ {
			if err := ten.Append(t.Context(), n, sealed(t, 1, ten.Nonce(), n)); err != nil {
				t.Fatal(err)
			}
		}
		key := kvlog.Keys{}.Log(2)
		do(t, disk, kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpDelete, Key: key, End: key + "\x00"}}})
		nothing := func(uint64, []byte) error { return nil }
		if _, err := claims(t, s, 2).Replay(t.Context(), nothing, nothing); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("batch 2 is missing, and batch 3 says that it was durable: %v", err)
		}
	})
}

// Behind a snapshot no batch is of an earlier epoch than the one that it follows.
func TestBatchOfEarlierEpochAfterSnapshotIsDamage(t *testing.T) {
	for epoch, fits := range map[uint64]bool{1: false, 2: true} {
		synctest.Test(t, func(t *testing.T) {
			disk := memstore.NewDisk()
			s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
			t.Cleanup(s.Crash)
			claims(t, s, 1)
			ten := claims(t, s, 2)
			nothing := func(uint64, []byte) error { return nil }
			if _, err := ten.Replay(t.Context(), nothing, nothing); err != nil {
				t.Fatal(err)
			}
			opening := sealed(t, 2, ten.Nonce(), 2)
			if err := ten.Open(t.Context(), 2, opening); err != nil {
				t.Fatal(err)
			}
			if err := ten.Snapshot(t.Context(), 2, snapshotOf(t, 2, ten.Nonce(), 2)); err != nil {
				t.Fatal(err)
			}
			head, err := store.HeaderOf(opening)
			if err != nil {
				t.Fatal(err)
			}
			next, _, err := store.SealBatch(&recordpb.Batch{Epoch: epoch, Number: 3, Nonce: head.Nonce[:], Previous: head.Sum[:], Durable: 2})
			if err != nil {
				t.Fatal(err)
			}
			do(t, disk, put(kvlog.Keys{}.Log(3), string(next)))
			if _, err := claims(t, s, 3).Replay(t.Context(), nothing, nothing); fits != (err == nil) || !fits && !errors.Is(err, store.ErrDamaged) {
				t.Errorf("a batch of epoch %d behind a snapshot after one of epoch 2: %v", epoch, err)
			}
		})
	}
}
