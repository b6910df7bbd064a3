package memstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// inspected is a cell of 40 batches with a snapshot of two chunks after the 30th.
func inspected(t *testing.T) (*memstore.Disk, kvlog.Keys) {
	t.Helper()
	disk := memstore.NewDisk()
	s := disk.Store(memstore.Options{Clock: clock.System(), Sole: true})
	t.Cleanup(s.Crash)
	var sum store.Sum
	batch := func(epoch uint64, nonce store.Nonce, n uint64) []byte {
		b := &recordpb.Batch{Epoch: epoch, Number: n, Nonce: nonce[:], Durable: n - 1}
		if n > 1 {
			b.Previous = append([]byte(nil), sum[:]...)
		}
		raw, its, err := store.SealBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		sum = its
		return raw
	}
	first := func(epoch uint64, nonce store.Nonce) []byte { return batch(epoch, nonce, 1) }
	ten, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{1}, first)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(2); n <= 40; n++ {
		if err := ten.Append(t.Context(), n, batch(1, ten.Nonce(), n)); err != nil {
			t.Fatal(err)
		}
		if n != 30 {
			continue
		}
		err := ten.Snapshot(t.Context(), n, func(yield func([]byte) bool) {
			for i := range uint32(2) {
				raw, _, err := store.SealChunk(&recordpb.Chunk{Number: n, Previous: sum[:], Index: i, Last: i == 1})
				if err != nil {
					t.Fatal(err)
				}
				if !yield(raw) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return disk, kvlog.Keys{}
}

// An inspection names what was harmed, goes on behind it, and complains about
// nothing else.
func TestInspectNamesDamage(t *testing.T) {
	disk, keys := inspected(t)
	folder := keys.Chunks(30, 1)
	put := func(key string, value string) kvlog.Op {
		return kvlog.Op{Kind: kvlog.OpPut, Key: key, Value: []byte(value)}
	}
	drop := func(key string) kvlog.Op { return kvlog.Op{Kind: kvlog.OpDelete, Key: key, End: key + "\x00"} }
	moved := func(from, to string) kvlog.Op {
		res, err := disk.Txn(t.Context(), kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpGet, Key: from}}})
		if err != nil {
			t.Fatal(err)
		}
		return kvlog.Op{Kind: kvlog.OpPut, Key: to, Value: res.Gets[0].Value}
	}
	for name, tc := range map[string]struct {
		harm kvlog.Op
		want []string // parts of each damage, in order
		note string
	}{
		"none":                     {harm: put("elsewhere", "x"), note: "none of the cell's"},
		"a batch does not read":    {harm: put(keys.Log(35), "x"), want: []string{"batch 35"}},
		"a batch is another's":     {harm: moved(keys.Log(34), keys.Log(35)), want: []string{"batch 35"}},
		"a batch is gone":          {harm: drop(keys.Log(35)), want: []string{"batch 36: store: damaged: batch 35 is missing"}},
		"an old batch is gone":     {harm: drop(keys.Log(25))},
		"the snapshot's is gone":   {harm: drop(keys.Log(30))},
		"the one behind it too":    {harm: drop(keys.Log(31)), want: []string{"batch 32: store: damaged: batch 31 is missing"}},
		"a batch behind a hole":    {harm: moved(keys.Log(40), keys.Log(42)), want: []string{"batch 42"}},
		"the tenure does not read": {harm: put(keys.Tenure(), "{}"), want: []string{"tenure"}},
		"the tenure is gone":       {harm: drop(keys.Tenure()), want: []string{"a log and no tenure"}},
		"the pointer is garbage":   {harm: put(keys.Snapshot(), "{"), want: []string{"snapshot", "batch 23: store: damaged: batch 1 is missing"}, note: "nothing points at"},
		"a chunk does not read":    {harm: put(keys.Chunk(folder, 0), "x"), want: []string{"after batch 30, 0000000000", "not the one that was written"}},
		"a chunk is gone":          {harm: drop(keys.Chunk(folder, 1)), want: []string{"2 chunks and 1 are there"}},
		"the first chunk is gone":  {harm: drop(keys.Chunk(folder, 0)), want: []string{"chunk 0 is missing", "2 chunks and 1 are there"}},
		"chunks of nobody":         {harm: moved(keys.Chunk(folder, 0), keys.Chunk(keys.Chunks(20, 1), 0)), note: "nothing points at"},
	} {
		t.Run(name, func(t *testing.T) {
			saved := disk.Save()
			defer disk.Restore(saved)
			if _, err := disk.Txn(t.Context(), kvlog.Txn{Then: []kvlog.Op{tc.harm}}); err != nil {
				t.Fatal(err)
			}
			var damage, notes []string
			batches := 0
			err := kvlog.Inspect(t.Context(), disk, "", func(f kvlog.Found) error {
				if f.Damage != nil {
					damage = append(damage, f.Damage.Error())
					if !errors.Is(f.Damage, store.ErrDamaged) {
						t.Errorf("%v is no damage", f.Damage)
					}
				}
				if f.Note != "" {
					notes = append(notes, f.Note)
				}
				if f.Kind == kvlog.FoundBatch {
					batches++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if batches < 17 {
				t.Errorf("%d batches were visited", batches)
			}
			if len(damage) != len(tc.want) {
				t.Fatalf("damage %q, want %q", damage, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(damage[i], want) {
					t.Errorf("damage %q, want %q", damage[i], want)
				}
			}
			if (tc.note == "") != (notes == nil) || !strings.Contains(strings.Join(notes, "; "), tc.note) {
				t.Errorf("notes %q, want %q", notes, tc.note)
			}
		})
	}
}
