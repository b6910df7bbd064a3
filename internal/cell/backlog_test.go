package cell_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// grants counts the leases that a stream is granted.
type grants struct{ atomic.Int64 }

func (g *grants) Receive(_ uint64, a locktable.Answer) {
	if _, ok := a.(locktable.Granted); ok {
		g.Add(1)
	}
}

// While far more is decided than is on its way to the store, acquires stay where they
// are. They are taken as soon as there is room again: nothing else has to happen.
func TestBackloggedAcquiresAreTakenLater(t *testing.T) {
	const streams, each = 4, 1 << 14
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		time.Sleep(time.Second) // the first token of a tenure waits for the clock to move on
		told := &grants{}
		all := make([]*cell.Stream, streams)
		for i := range all {
			all[i] = s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: time.Hour}, told)
			defer all[i].Detach()
		}
		synctest.Wait()
		s.store.Stall()
		for i, x := range all {
			m := cell.Message{}
			for n := range uint64(each) {
				m.Acquires = append(m.Acquires, locktable.Acquire{Number: n + 1, Names: []string{fmt.Sprint(i, "/", n)}})
			}
			x.Submit(m)
			synctest.Wait()
		}
		s.store.Resume()
		synctest.Wait()
		if n := told.Load(); n != streams*each {
			t.Errorf("%d acquires of %d are granted when the store goes on", n, streams*each)
		}
	})
}
