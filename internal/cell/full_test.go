package cell_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A store takes no writes for far longer than sessions live. Sessions that need no
// record keep their leases, an acquire is refused at once, and what waits to be written
// takes effect when there is room.
func TestFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", true)
		defer s.stop()
		s.up(t)
		const ttl = 10 * time.Second
		kept, given := s.acquire(t, "kept", ttl, 0), s.acquire(t, "given", ttl, 0)
		disk.SetFull(true)
		released := make(chan error, 1)
		go func() { released <- s.Release(t.Context(), given.ID) }()
		time.Sleep(time.Second)

		refused := func(what string, err error) {
			t.Helper()
			var no *cell.RefusedError
			if !errors.As(err, &no) || no.Reason != locktable.Exhausted || !strings.Contains(no.Message, "the store is full") {
				t.Errorf("%s on a full store: %v", what, err)
			}
		}
		begun := time.Now()
		for time.Since(begun) < 4*ttl {
			before := time.Now()
			if _, err := s.RenewLease(t.Context(), kept.ID, 0); err != nil {
				t.Fatalf("a renewal after %v: %v", time.Since(begun), err)
			}
			_, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"more"}, TTL: ttl})
			refused("an acquire", err)
			_, _, err = s.OpenSession(t.Context(), ttl, "")
			refused("a new session", err)
			p, err := s.List(t.Context(), locktable.List{Name: "kept"})
			if err != nil || len(p.Locks) != 1 || p.Locks[0].Holders[0].Token != kept.Granted.Token {
				t.Errorf("what is held, on a full store: %+v %v", p, err)
			}
			_, err = s.List(t.Context(), locktable.List{})
			refused("a listing of what is being released", err)
			if st, err := s.Status(t.Context()); err != nil || st.Leases != 2 {
				t.Errorf("status on a full store: %+v %v", st, err)
			}
			if took := time.Since(before); took > time.Second {
				t.Errorf("they took %v", took)
			}
			time.Sleep(ttl / 6)
		}
		if err := <-released; reasonOf(err) != locktable.Unavailable {
			t.Errorf("a release that could not be written: %v", err)
		}

		disk.SetFull(false)
		time.Sleep(time.Second)
		if _, err := s.RenewLease(t.Context(), given.ID, 0); reasonOf(err) != locktable.Gone {
			t.Errorf("what was released: %v", err)
		}
		if _, err := s.RenewLease(t.Context(), kept.ID, 0); err != nil {
			t.Errorf("what was kept: %v", err)
		}
		s.acquire(t, "given", ttl, 0)
	})
}

// That the store is full is known with the first write that it refuses: a renewal that
// was decided beside that write does not wait for another turn.
func TestRenewalPassesARefusedWriteAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", true)
		defer s.stop()
		s.up(t)
		kept, given := s.acquire(t, "kept", 10*time.Second, time.Second), s.acquire(t, "given", 10*time.Second, time.Second)
		time.Sleep(30 * time.Millisecond) // between two turns of the clock
		disk.SetFull(true)
		defer disk.SetFull(false)
		go func() { _ = s.Release(t.Context(), given.ID) }()
		before := time.Now()
		if _, err := s.RenewLease(t.Context(), kept.ID, 0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); took > 10*time.Millisecond {
			t.Errorf("the renewal was answered after %v", took)
		}
	})
}
