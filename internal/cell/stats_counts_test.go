package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
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
		if err := s.CloseSession(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		n := s.Stats()
		if got := [...]uint64{n.Granted.Load(), n.Released.Load(), n.Checked.Load(), n.Left.Load()}; got != [...]uint64{3, 3, 0, 1} {
			t.Errorf("granted, released, checked, closed: %v", got)
		}
	})
}

// A client that returns says how long it rode. One that greets again for want of an answer
// tells of the same ride. Status counts the riders, and the names that they have left.
func TestRidesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		x := make(told, 100)
		first := s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: time.Hour}, x)
		first.Submit(cell.Message{Acquires: []locktable.Acquire{{Number: 1, Names: []string{"x"}, Claims: true, RideThrough: time.Hour}}})
		g := x.granted()
		if st, err := s.Status(t.Context()); err != nil || st.Riders != 1 || st.ByGrade[locktable.Claimed] != 1 || st.ClaimOnly != 0 {
			t.Errorf("while it is held: %+v, %v", st, err)
		}
		for i, riding := range []time.Duration{10 * time.Second, 15 * time.Second, 0, 5 * time.Second} {
			s.Attach(t.Context(), cell.Hello{
				Session: first.Session(), Generation: uint64(i + 2), Held: []uint64{uint64(g.Token)}, Next: 2, Riding: riding,
			}, x)
		}
		if _, err := s.Break(t.Context(), locktable.Break{Name: "x", Token: g.Token, Now: true}); err != nil {
			t.Fatal(err)
		}
		if st, err := s.Status(t.Context()); err != nil || st.Riders != 0 || st.ClaimOnly != 1 {
			t.Errorf("after the break: %+v, %v", st, err)
		}
		if n := s.Stats(); n.Rides.Load() != 2 || time.Duration(n.Ridden.Load()) != 20*time.Second {
			t.Errorf("%d rides of %v", n.Rides.Load(), time.Duration(n.Ridden.Load()))
		}
	})
}
