package memstore_test

import (
	"context"
	"errors"
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

func put(key, value string) kvlog.Txn {
	return kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: key, Value: []byte(value)}}}
}

func do(t *testing.T, kv kvlog.KV, txn kvlog.Txn) kvlog.Result {
	t.Helper()
	r, err := kv.Txn(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keys(t *testing.T, d *memstore.Disk, rev int64, limit int) (names []string, more bool) {
	t.Helper()
	page, err := d.Range(t.Context(), kvlog.Query{From: "a", To: "z", Rev: rev, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range page.Pairs {
		names = append(names, p.Key+"="+string(p.Value))
	}
	return names, page.More
}

func wantKeys(t *testing.T, d *memstore.Disk, rev int64, want ...string) {
	t.Helper()
	got, _ := keys(t, d, rev, 100)
	if len(got) != len(want) {
		t.Fatalf("at revision %d: %q, want %q", rev, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("at revision %d: %q, want %q", rev, got, want)
		}
	}
}

func TestDiskReadsAtOneRevision(t *testing.T) {
	d := memstore.NewDisk()
	r1 := do(t, d, put("b", "1")).Rev
	r2 := do(t, d, put("c", "1")).Rev
	r3 := do(t, d, put("b", "2")).Rev
	r4 := do(t, d, kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpDelete, Key: "a", End: "c"}}}).Rev
	wantKeys(t, d, r1, "b=1")
	wantKeys(t, d, r2, "b=1", "c=1")
	wantKeys(t, d, r3, "b=2", "c=1")
	wantKeys(t, d, r4, "c=1")
	wantKeys(t, d, 0, "c=1")
	if got, more := keys(t, d, r3, 1); len(got) != 1 || !more {
		t.Errorf("a page of one: %q, more %v", got, more)
	}
	if err := d.Compact(t.Context(), r3); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, d, r3, "b=2", "c=1")
	if _, err := d.Range(t.Context(), kvlog.Query{From: "a", To: "z", Rev: r2, Limit: 1}); !errors.Is(err, memstore.ErrCompacted) {
		t.Errorf("a revision that was compacted: %v", err)
	}
	if err := d.Compact(t.Context(), r4); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, d, 0, "c=1")
}

func TestDiskIsSetBack(t *testing.T) {
	d := memstore.NewDisk()
	do(t, d, put("b", "1"))
	saved := d.Save()
	rev := do(t, d, put("b", "2")).Rev
	do(t, d, put("c", "2"))
	d.Restore(saved)
	wantKeys(t, d, 0, "b=1")
	if again := do(t, d, put("b", "3")).Rev; again != rev {
		t.Errorf("revision %d comes a second time as %d", rev, again)
	}
	d.Restore(saved)
	wantKeys(t, d, 0, "b=1")
}

func TestDiskIsFull(t *testing.T) {
	d := memstore.NewDisk()
	d.SetFull(true)
	if _, err := d.Txn(t.Context(), put("b", "1")); !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	d.SetFull(false)
	do(t, d, put("b", "1"))
	u, err := d.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.SetQuota(u.Used)
	if _, err := d.Txn(t.Context(), put("b", "1")); !errors.Is(err, store.ErrFull) {
		t.Errorf("over the quota: %v, want ErrFull", err)
	}
	do(t, d, kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpDelete, Key: "a", End: "z"}}})
}

func TestDiskHistoryIsBounded(t *testing.T) {
	d := memstore.NewDisk()
	for range 20_000 {
		do(t, d, put("beat", "x"))
	}
	u, err := d.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Used > 10_000*int64(len("beatx")) {
		t.Errorf("%d bytes are kept for one key", u.Used)
	}
}

func first(epoch uint64, nonce store.Nonce) []byte {
	raw, _, err := store.SealBatch(&recordpb.Batch{Epoch: epoch, Number: 1, Nonce: nonce[:]})
	if err != nil {
		panic(err)
	}
	return raw
}

// What a crashed server had on its way never lands, and it gives no sign of life any
// more.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memstore.NewDisk()
		s := d.Store(memstore.Options{Clock: clock.Bubble()})
		ten, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, first)
		if err != nil {
			t.Fatal(err)
		}
		s.Plan(func(kvlog.Txn) faulty.Fault { return faulty.Fault{Delay: time.Minute} })
		outcome := make(chan error)
		go func() { outcome <- ten.Append(t.Context(), 2, []byte("late")) }()
		synctest.Wait()
		s.Crash()
		if err := <-outcome; !errors.Is(err, faulty.ErrCrashed) {
			t.Errorf("got %v, want ErrCrashed", err)
		}
		beat := d.Holds("beat")
		time.Sleep(time.Hour)
		if string(d.Holds("beat")) != string(beat) || d.Holds(kvlog.Keys{}.Log(2)) != nil {
			t.Error("a crashed server still writes")
		}
	})
}

// A standby waits for active-ttl without a sign of life, not less and not much more.
func TestStandbyTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		d := memstore.NewDisk()
		active := d.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: ttl})
		standby := d.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: ttl})
		defer standby.Close()
		if _, err := active.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, first); err != nil {
			t.Fatal(err)
		}
		claimed := make(chan time.Time, 1)
		go func() {
			if _, err := standby.Claim(t.Context(), store.Node{ID: [16]byte{2}}, store.Nonce{2}, first); err != nil {
				t.Error(err)
			}
			claimed <- time.Now()
		}()
		time.Sleep(10 * ttl)
		select {
		case <-claimed:
			t.Fatal("a standby took over from a living server")
		default:
		}
		crashed := time.Now()
		active.Crash()
		took := (<-claimed).Sub(crashed)
		if took < ttl-ttl/10 || took > ttl+ttl/10 {
			t.Errorf("the standby took over %v after the last sign of life at most %v earlier; active-ttl is %v", took, ttl/10, ttl)
		}
	})
}

// The store is set up anew under a running server.
func TestAnotherCluster(t *testing.T) {
	d := memstore.NewDisk()
	s := d.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
	ten, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := ten.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.SetCluster(2)
	for doing, err := range map[string]error{"confirm": ten.Confirm(t.Context()), "append": ten.Append(t.Context(), 2, []byte("x"))} {
		if !errors.Is(err, store.ErrRolledBack) {
			t.Errorf("%s: %v, want ErrRolledBack", doing, err)
		}
	}
	<-ten.Lost()
}

// A store that was replaced, or set back, ends the tenure and is told of once: a claim
// after that begins with what is there now.
func TestClaimAfterStoreWasReplaced(t *testing.T) {
	for what, replaced := range map[string]bool{"replaced": true, "set back": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := memstore.NewDisk()
				s := d.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
				ten := claims(t, s, 1)
				state := d.Save()
				if err := ten.Append(t.Context(), 2, sealed(t, 1, ten.Nonce(), 2)); err != nil {
					t.Fatal(err)
				}
				if replaced {
					d.SetCluster(2)
				} else {
					d.Restore(state)
				}
				if err := ten.Confirm(t.Context()); !errors.Is(err, store.ErrRolledBack) {
					t.Errorf("confirm: %v, want ErrRolledBack", err)
				}
				if next := claims(t, s, 2); next.Epoch() != 2 {
					t.Errorf("the next tenure is of epoch %d", next.Epoch())
				}
			})
		})
	}
}

func TestJournal(t *testing.T) {
	d := memstore.NewDisk()
	journal := d.Record()
	s := d.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
	if _, err := s.Claim(context.Background(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, first); err != nil {
		t.Fatal(err)
	}
	if journal.Len() != 1 || journal.At(0).What != kvlog.WhatFresh {
		t.Fatalf("%d writes, the first %+v", journal.Len(), journal.At(0))
	}
	if r := do(t, d, journal.At(0)); r.OK {
		t.Error("a cell was founded twice")
	}
}
