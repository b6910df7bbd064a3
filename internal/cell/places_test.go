package cell_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// errCut is what a front ends a wait with whose caller may not wait any more.
var errCut = errors.New("put out")

// waiting begins an acquire that waits, and returns what cuts it and what came of
// it.
func (s *server) waiting(t *testing.T, r cell.AcquireRequest) (cut context.CancelCauseFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, r)
		done <- err
	}()
	synctest.Wait()
	return cancel, done
}

func (s *server) waiters(t *testing.T, name string) int {
	t.Helper()
	page, err := s.List(t.Context(), locktable.List{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Locks) == 0 {
		return 0
	}
	return len(page.Locks[0].Waiters)
}

// A proxy cuts a wait every five seconds. The request comes again and has its
// place still, before one that came later.
func TestPlaceKeptWhenConnectionIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", false)
		s.up(t)
		defer s.stop()
		held := s.acquire(t, "x", time.Minute, 0)
		r := cell.AcquireRequest{Names: []string{"x"}, TTL: 10 * time.Second, Wait: time.Hour, RequestID: "one"}
		cut, first := s.waiting(t, r)
		_, behind := s.waiting(t, cell.AcquireRequest{Names: []string{"x"}, TTL: 10 * time.Second, Wait: time.Hour})
		for range 4 {
			time.Sleep(5 * time.Second)
			cut(nil)
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Fatalf("the caller that is cut off gets %v", err)
			}
			time.Sleep(time.Second)
			if n := s.waiters(t, "x"); n != 2 {
				t.Fatalf("%d wait while the connection is away", n)
			}
			cut, first = s.waiting(t, r)
		}
		if err := s.Release(t.Context(), held.ID); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Errorf("the repeat gets %v", err)
		}
		synctest.Wait()
		select {
		case err := <-behind:
			t.Errorf("who came later was granted the name, too: %v", err)
		default:
		}
		cut(nil)
	})
}

// A place is kept for PlaceKept, and only for who can take it up again.
func TestAbandonedPlaceExpires(t *testing.T) {
	for what, tc := range map[string]struct {
		id    string
		cause error
		kept  time.Duration
	}{
		"the connection ends":              {"one", nil, bounds.PlaceKept},
		"it ends, without a request id":    {"", nil, 0},
		"the caller may not wait any more": {"one", errCut, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, memstore.NewDisk(), "a", false)
				s.up(t)
				defer s.stop()
				s.acquire(t, "x", time.Minute, 0)
				cut, ended := s.waiting(t, cell.AcquireRequest{Names: []string{"x"}, TTL: 10 * time.Second, Wait: time.Hour, RequestID: tc.id})
				cut(tc.cause)
				<-ended
				begun := time.Now()
				for s.waiters(t, "x") > 0 {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begun); took < tc.kept || took > tc.kept+time.Second {
					t.Errorf("the place was there for %v", took)
				}
			})
		})
	}
}
