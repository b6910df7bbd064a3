package memstore_test

import (
	"errors"
	"testing"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A tenure opens and cuts what its predecessor left behind a hole. The store is then
// set back to before that. The next append finds a batch of the predecessor in its
// place: that is a roll-back, not damage.
func TestOpeningLostInASetBack(t *testing.T) {
	disk := memstore.NewDisk()
	var last []byte
	next := func(epoch uint64, nonce store.Nonce, n uint64) []byte {
		raw, sum, err := store.SealBatch(&recordpb.Batch{Epoch: epoch, Number: n, Nonce: nonce[:], Previous: last})
		if err != nil {
			t.Fatal(err)
		}
		last = sum[:]
		return raw
	}
	claim := func(nonce store.Nonce) store.Tenure {
		s := disk.Store(memstore.Options{Clock: clock.System(), Sole: true})
		t.Cleanup(s.Crash)
		ten, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, nonce, func(epoch uint64, nonce store.Nonce) []byte {
			return next(epoch, nonce, 1)
		})
		if err != nil {
			t.Fatal(err)
		}
		return ten
	}
	lands := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	a := claim(store.Nonce{1})
	lands(a.Append(t.Context(), 2, next(1, a.Nonce(), 2)))
	head := last
	lands(a.Append(t.Context(), 4, next(1, a.Nonce(), 4)))

	b := claim(store.Nonce{2})
	ignore := func(uint64, []byte) error { return nil }
	if n, err := b.Replay(t.Context(), ignore, ignore); n != 2 || err != nil {
		t.Fatalf("the log ends with batch %d, %v", n, err)
	}
	saved := disk.Save()
	last = head
	lands(b.Open(t.Context(), 3, next(2, b.Nonce(), 3)))
	disk.Restore(saved)
	for range 2 {
		// What others write raises the revision, which tells otherwise.
		put := kvlog.Op{Kind: kvlog.OpPut, Key: "another"}
		if _, err := disk.Txn(t.Context(), kvlog.Txn{Then: []kvlog.Op{put}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Append(t.Context(), 4, next(2, b.Nonce(), 4)); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("append over a batch that was cut: %v, want ErrRolledBack", err)
	}
}
