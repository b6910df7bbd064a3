package cell_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// drill begins a drill that must begin.
func (s *server) drill(t *testing.T, lasts time.Duration) *cell.Drill {
	t.Helper()
	x, err := s.BeginDrill(t.Context(), lasts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// I5: usable time stands still during a drill of six TTLs, and nobody is answered. The
// client that returns after it has its lease; the one that does not is reported as lost.
func TestDrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		back := s.acquire(t, "back", 10*time.Second, 0)
		s.acquire(t, "lost", 10*time.Second, 0)
		closed := s.acquire(t, "closed", 10*time.Second, 0)
		before, err := s.Status(t.Context())
		if err != nil || before.Drill != 0 {
			t.Fatalf("%+v, %v", before, err)
		}

		begun := time.Now()
		x := s.drill(t, time.Minute)
		_, err = s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"new"}, TTL: 10 * time.Second})
		if reasonOf(err) != locktable.Unavailable || time.Since(begun) < activeTTL {
			t.Errorf("an acquire was answered after %v: %v", time.Since(begun), err)
		}
		if _, err := s.RenewLease(t.Context(), back.ID, 0); reasonOf(err) != locktable.Unavailable {
			t.Errorf("a renewal was answered: %v", err)
		}
		time.Sleep(time.Until(begun.Add(50 * time.Second)))
		st, err := s.Status(t.Context())
		if err != nil || st.Drill.Round(time.Second) != 10*time.Second || !st.Active || st.Sessions != before.Sessions || st.Batch != before.Batch {
			t.Errorf("during it: %+v, %v", st, err)
		}

		time.Sleep(11 * time.Second)
		if _, err := s.RenewLease(t.Context(), back.ID, 0); err != nil {
			t.Errorf("the lease of the one that returns: %v", err)
		}
		if err := s.Release(t.Context(), closed.ID); err != nil {
			t.Errorf("the lease of the one that closes: %v", err)
		}
		r, err := x.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < time.Minute+8*time.Second || took > time.Minute+11*time.Second {
			t.Errorf("the report came after %v; one TTL after the outage was expected", took)
		}
		if r.Lasted != time.Minute || r.Sessions != 3 || r.Missing != 0 || r.LostCount != 1 || r.RideCount != 0 ||
			len(r.Lost) != 1 || len(r.Lost[0].Names) != 1 || r.Lost[0].Names[0] != "lost" || r.Lost[0].Leases != 1 || r.Lost[0].Handle == "" {
			t.Errorf("%+v", r)
		}
		if st, err = s.Status(t.Context()); err != nil || st.Drill != 0 {
			t.Errorf("after it: %+v, %v", st, err)
		}
		s.drill(t, time.Second)
	})
}

// A drill ends by itself when the one who asked for it is gone.
func TestDrillEndsWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		ctx, cancel := context.WithCancel(t.Context())
		x, err := s.BeginDrill(ctx, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := x.Report(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that went: %v", err)
		}
		time.Sleep(10 * time.Second)
		if left := s.DrillLeft(); left.Round(time.Second) != 10*time.Second {
			t.Errorf("%v are left", left)
		}
		time.Sleep(11 * time.Second)
		s.acquire(t, "x", 10*time.Second, 0)
		if left := s.DrillLeft(); left != 0 {
			t.Errorf("%v are left", left)
		}
	})
}

func TestDrillRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", false)
		defer s.stop()
		s.up(t)
		standby := start(t, disk, "b", false)
		defer standby.stop()
		if _, err := standby.BeginDrill(t.Context(), time.Minute); reasonOf(err) != locktable.Unavailable {
			t.Errorf("at a standby: %v", err)
		}
		for _, lasts := range []time.Duration{0, -time.Second, bounds.DrillMax + 1} {
			if _, err := s.BeginDrill(t.Context(), lasts); reasonOf(err) != locktable.Invalid {
				t.Errorf("%v: %v", lasts, err)
			}
		}
		s.drill(t, time.Minute)
		if _, err := s.BeginDrill(t.Context(), time.Minute); reasonOf(err) != locktable.Conflict {
			t.Errorf("a second one: %v", err)
		}
	})
}

// A drill does not begin in an outage.
func TestDrillInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		s.store.Stall()
		if _, err := s.BeginDrill(t.Context(), time.Minute); reasonOf(err) != locktable.Unavailable {
			t.Error(err)
		}
		s.store.Resume()
		s.acquire(t, "x", 10*time.Second, 0)
		s.drill(t, time.Minute)
	})
}

// A standby does not take over during a drill: the active server goes on giving signs
// of life. When that one stops, which ends the drill, the standby does.
func TestStandbyDuringADrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", false)
		s.up(t)
		standby := start(t, disk, "b", false)
		defer standby.stop()
		l := s.acquire(t, "x", 10*time.Second, 0)
		x := s.drill(t, time.Minute)
		time.Sleep(55 * time.Second)
		if standby.Info().Active || !s.Info().Active {
			t.Fatal("the standby took over")
		}
		begun := time.Now()
		s.stop()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the server took %v to stop", took)
		}
		if _, err := x.Report(t.Context()); reasonOf(err) != locktable.Cancelled {
			t.Errorf("the report of a drill whose server stopped: %v", err)
		}
		standby.up(t)
		if _, err := standby.RenewLease(t.Context(), l.ID, 0); err != nil {
			t.Errorf("the lease, at the next server: %v", err)
		}
	})
}

// A server that is deposed during a drill learns of that: what is final is no answer
// that a lost quorum would keep.
func TestDeposedDuringADrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", false)
		defer s.stop()
		s.up(t)
		x := s.drill(t, time.Hour)
		s.store.Stall()
		next := start(t, disk, "b", false)
		defer next.stop()
		next.up(t)
		s.store.Resume()
		if _, err := x.Report(t.Context()); reasonOf(err) != locktable.Cancelled {
			t.Errorf("%v", err)
		}
		next.acquire(t, "x", 10*time.Second, 0)
	})
}

// The report has the sessions whose greeting said that they ride, if they return, and
// how long they rode: until the end of the outage.
func TestDrillReportsRides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		open := func(label, name string) *cell.Stream {
			x := make(told, 100)
			st := s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: 15 * time.Second, Label: label}, x)
			st.Submit(cell.Message{Acquires: []locktable.Acquire{
				{Number: 1, Names: []string{name}, Claims: true, RideThrough: time.Hour},
				{Number: 2, Names: []string{name + "/2"}},
			}})
			x.granted()
			x.granted()
			return st
		}
		rider, lost, calm := open("rider", "rides"), open("lost", "rode"), open("calm", "calm")
		d := s.drill(t, 20*time.Second)
		time.Sleep(10 * time.Second)
		again := func(st *cell.Stream, riding time.Duration) (*cell.Stream, told) {
			x := make(told, 100)
			st.Detach()
			return s.Attach(t.Context(), cell.Hello{Session: st.Session(), Generation: 2, Riding: riding}, x), x
		}
		rider, answers := again(rider, 4*time.Second)
		_, _ = again(lost, 5*time.Second)
		synctest.Wait()
		if len(answers) > 0 {
			t.Errorf("a greeting was answered: %+v", <-answers)
		}
		time.Sleep(11 * time.Second)
		if _, ok := (<-answers).(locktable.Attached); !ok {
			t.Error("the greeting was not answered after the outage")
		}
		rider.Submit(cell.Message{Renewal: 1})
		calm.Submit(cell.Message{Renewal: 1})
		r, err := d.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Sessions != 3 || r.Missing != 0 || r.LostCount != 1 || len(r.Lost) != 1 || r.Lost[0].Label != "lost" ||
			r.RideCount != 1 || len(r.Rides) != 1 || r.Rides[0].Label != "rider" || len(r.Rides[0].Names) != 1 || r.Rides[0].Names[0] != "rides" {
			t.Fatalf("%+v", r)
		}
		if rode := r.Rides[0].Rode; rode < 14*time.Second || rode > 15*time.Second {
			t.Errorf("it rode for %v; 14s was expected", rode)
		}
	})
}

// Sessions with a TTL beyond what a drill waits for are missing in the report, and live.
func TestDrillDoesNotWaitForLongTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		l := s.acquire(t, "x", time.Hour, 0)
		begun := time.Now()
		r, err := s.Drill(t.Context(), 10*time.Second)
		if took := time.Since(begun); err != nil || r.Missing != 1 || r.LostCount != 0 || took > cell.RollMax+20*time.Second {
			t.Errorf("after %v: %+v, %v", took, r, err)
		}
		if _, err := s.RenewLease(t.Context(), l.ID, 0); err != nil {
			t.Error(err)
		}
	})
}

// The report lists a bounded number of sessions, and of names of each, and counts all.
func TestDrillReportIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		names := make([]string, 20)
		for i := range cell.RollListed + 10 {
			for k := range names {
				names[k] = fmt.Sprintf("n/%d/%d", i, k)
			}
			if _, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: names, TTL: 10 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := s.Drill(t.Context(), 20*time.Second)
		if err != nil || r.LostCount != cell.RollListed+10 || len(r.Lost) != cell.RollListed || r.Missing != 0 {
			t.Fatalf("%d lost, %d listed, %d missing, %v", r.LostCount, len(r.Lost), r.Missing, err)
		}
		for _, x := range r.Lost {
			if len(x.Names) != 8 || x.Leases != 1 {
				t.Fatalf("%+v", x)
			}
		}
	})
}
