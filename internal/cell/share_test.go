package cell_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// One identity takes up half of a cell at most, and what it gives back it may
// take again; another has room of its own, and so has who has no name.
func TestIdentityShareIsHalfTheCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clock.Bubble()
		limits := bounds.DefaultLimits
		limits.Sessions, limits.Leases, limits.Waiters, limits.ValueBytes = 8, 8, 4, 1000
		c := cell.New(cell.Options{
			Store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), Clock: k, Name: "test", ActiveTTL: activeTTL, Limits: limits,
		})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		<-c.Ready()
		acquire := func(who, name string, value int, wait time.Duration) (cell.Lease, error) {
			return c.Acquire(cell.As(t.Context(), who), cell.AcquireRequest{
				Names: []string{name}, TTL: time.Minute, Value: make([]byte, value), Wait: wait,
			})
		}
		exhausted := func(what string, err error) {
			t.Helper()
			if reasonOf(err) != locktable.Exhausted || !strings.Contains(err.Error(), "share") {
				t.Errorf("%s: %v", what, err)
			}
		}
		var held []cell.Lease
		for i := range 4 {
			l, err := acquire("a", fmt.Sprint("a/", i), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
		}
		_, err := acquire("a", "a/5", 0, 0)
		exhausted("a lease", err)
		_, _, err = c.OpenSession(cell.As(t.Context(), "a"), time.Minute, "")
		exhausted("a session", err)
		if err := c.Release(cell.As(t.Context(), "a"), held[3].ID); err != nil {
			t.Fatal(err)
		}
		_, err = acquire("a", "a/5", 501, 0)
		exhausted("values", err)
		if _, err := acquire("a", "a/5", 500, 0); err != nil {
			t.Errorf("after a release: %v", err)
		}
		for _, who := range []string{"b", ""} {
			if _, err := acquire(who, "x"+who, 250, 0); err != nil {
				t.Errorf("%q: %v", who, err)
			}
		}
		// Waiters of one identity, in a session that has room for them.
		session, _, err := c.OpenSession(cell.As(t.Context(), "b"), time.Minute, "")
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 3)
		for i := range 3 {
			go func() {
				_, err := c.Acquire(cell.As(t.Context(), "b"), cell.AcquireRequest{
					Names: []string{"a/0"}, Session: session, Wait: 10 * time.Second, RequestID: strconv.Itoa(i),
				})
				waits <- err
			}()
		}
		exhausted("a third waiter of four", <-waits)
		for range 2 {
			if err := <-waits; reasonOf(err) != locktable.Held {
				t.Errorf("a waiter: %v", err)
			}
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
