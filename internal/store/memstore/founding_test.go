package memstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A new cell is founded only where there is no batch, also around keys of others: one
// that lands before, between or behind those, after the claimant has looked, is seen.
func TestNewCellNeedsEmptyLog(t *testing.T) {
	var keys kvlog.Keys
	for what, key := range map[string]string{
		"before the others": keys.Log(1), "between them": keys.Log(3), "behind them": keys.Log(5),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memstore.NewDisk()
				for _, n := range []uint64{1, 4} {
					do(t, disk, put(keys.Log(n)+" of others", "x"))
				}
				s := disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true})
				var once sync.Once
				s.Plan(func(x kvlog.Txn) faulty.Fault {
					if x.What == kvlog.WhatFresh {
						once.Do(func() { do(t, disk, put(key, string(sealed(t, 6, store.Nonce{6}, 2)))) })
					}
					return faulty.Fault{}
				})
				if ten := claims(t, s, 1); ten.Opened() || ten.Epoch() != 7 {
					t.Errorf("a tenure of epoch %d, a new cell: %v; the log goes on with epoch 7", ten.Epoch(), ten.Opened())
				}
			})
		})
	}
}

// A cell whose tenure was deleted goes on above every epoch that its log or its
// snapshot shows, whichever of them is the later one.
func TestEpochRisesAfterTenureIsDeleted(t *testing.T) {
	var keys kvlog.Keys
	for what, x := range map[string]struct{ log, snapshot uint64 }{
		"log": {9, 0}, "snapshot": {0, 9}, "snapshot before the log": {9, 6}, "snapshot after the log": {6, 9},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk := memstore.NewDisk()
			if x.log > 0 {
				do(t, disk, put(keys.Log(2), string(sealed(t, x.log, store.Nonce{6}, 2))))
			}
			if x.snapshot > 0 {
				sum := strings.Repeat("00", len(store.Sum{}))
				do(t, disk, put(keys.Snapshot(), fmt.Sprintf(
					`{"format":%d,"batch":2,"epoch":%d,"sum":%q,"chunks":1,"chunks_sum":%q}`, store.Format, x.snapshot, sum, sum)))
			}
			if ten := claims(t, disk.Store(memstore.Options{Clock: clock.Bubble(), Sole: true}), 1); ten.Epoch() != 10 {
				t.Errorf("%s: the cell goes on with epoch %d, want 10", what, ten.Epoch())
			}
		})
	}
}
