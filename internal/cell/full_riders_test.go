package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A rider's lease is broken by force just as the store turns full: it does not hear of that,
// and the time for which its name is closed runs. No renewal of its session is answered,
// from which it could ride beyond that time.
func TestBrokenRiderOnAFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", true)
		defer s.stop()
		s.up(t)
		const ttl, ride = 10 * time.Second, time.Minute
		id, _, err := s.OpenSession(t.Context(), ttl, "rider")
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Acquire(t.Context(), cell.AcquireRequest{Session: id, Names: []string{"n"}, Claims: true, RideThrough: ride})
		if err != nil {
			t.Fatal(err)
		}
		disk.SetFull(true)
		go func() { _, _ = s.Break(t.Context(), locktable.Break{Name: "n", Token: a.Granted.Token, Now: true}) }()
		var last time.Time // sending of the last acknowledged renewal
		for range 30 {
			sent := time.Now()
			if _, err := s.RenewSession(t.Context(), id, 0); err == nil {
				last = sent
			}
			time.Sleep(3 * time.Second)
		}
		disk.SetFull(false)
		time.Sleep(time.Second)
		_, err = s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"n"}, TTL: ttl})
		if ended := last.Add(ride); err == nil && time.Now().Before(ended) {
			t.Errorf("granted to one that does not claim %v before the rider must have ended", time.Until(ended))
		}
	})
}
