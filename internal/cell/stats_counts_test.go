package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/store/memstore"
)

// What was asked for is counted by what it is.
func TestStatsCountByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		for range 3 {
			l := s.acquire(t, "x", 10*time.Second, 0)
			if err := s.Release(t.Context(), l.ID); err != nil {
				t.Fatal(err)
			}
		}
		id, _, err := s.OpenSession(t.Context(), 10*time.Second, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		n := s.Stats()
		if got := [...]uint64{n.Granted.Load(), n.Released.Load(), n.Checked.Load(), n.Left.Load()}; got != [...]uint64{3, 3, 0, 1} {
			t.Errorf("granted, released, checked, closed: %v", got)
		}
	})
}
