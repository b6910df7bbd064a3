package memstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/internal/store/storetest"
	"github.com/pawlproject/pawl/internal/testwait"
)

func TestContract(t *testing.T) {
	for _, test := range storetest.Tests() {
		t.Run(test.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.Run(t, place()) })
		})
	}
}

func place() *storetest.Place {
	disk := memstore.NewDisk()
	p := storetest.OnKV(disk, clock.Bubble())
	p.Save = func() func() {
		saved := disk.Save()
		return func() { disk.Restore(saved) }
	}
	p.SetFull = disk.SetFull
	p.Seeds = uint64(testwait.Reps(100))
	return p
}
