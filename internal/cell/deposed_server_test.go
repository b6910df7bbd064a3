package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A server that comes back after a crash finds itself in the store as the active
// one. It is not: it must neither say that it is ready nor send callers there.
func TestRestartedServerDoesNotTakeItselfForActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		a.crash()
		a = start(t, disk, "a", false)
		defer a.stop()
		time.Sleep(activeTTL / 2)
		if info := a.Info(); info.Active || info.ActiveLink != "" {
			t.Errorf("while it waits for its turn it says %+v", info)
		}
		if s, err := a.Status(t.Context()); err != nil || s.ActiveLink != "" {
			t.Errorf("its status is %+v (%v)", s, err)
		}
		a.up(t)
		if info := a.Info(); !info.Active || info.ActiveLink != "a" {
			t.Errorf("serving, it says %+v", info)
		}
	})
}
