package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A clean stop waits for its store for a bounded time: five seconds for what was sent,
// and as many for the end of the tenure. After that the next server takes over by its
// own wait.
func TestStopWithoutAStoreIsBounded(t *testing.T) {
	for what, sent := range map[string]bool{"nothing is on its way": false, "a grant is on its way": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, memstore.NewDisk(), "a", true)
				s.up(t)
				s.acquire(t, "x", 10*time.Second, 0)
				s.store.Stall()
				asked := make(chan struct{})
				go func() {
					defer close(asked)
					if sent {
						l, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"y"}, TTL: 10 * time.Second})
						if err == nil {
							t.Errorf("a lease that no store has: %+v", l)
						}
					}
				}()
				synctest.Wait()
				begun := time.Now()
				s.cancel()
				if err := <-s.end; err != nil {
					t.Errorf("the end of a tenure is a courtesy: %v", err)
				}
				if took := time.Since(begun); took < 5*time.Second || took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				<-asked
				s.store.Resume()
				s.store.Close()
			})
		})
	}
}
