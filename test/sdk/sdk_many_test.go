package sdk

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/pawltest"
)

// A client with more leases and waiters than one message of a greeting names comes back
// after its connection was lost: it keeps every lease, and those who wait are granted.
func TestClientWithManyLeasesReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held, waiting = bounds.NamedMax - 100, 300
		s := pawltest.New(t)
		path := s.NewPath()
		c := path.Dial(t, pawl.Options{TTL: time.Minute})
		other := s.Dial(t, pawl.Options{TTL: time.Minute})
		first, err := other.Acquire(t.Context(), "wanted")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		leases := make([]*pawl.Lease, held)
		for i := range leases {
			all.Go(func() {
				l, err := c.Acquire(t.Context(), fmt.Sprint("n/", i))
				if err != nil {
					t.Error(err)
				}
				leases[i] = l
			})
		}
		all.Wait()
		for range waiting {
			all.Go(func() {
				l, err := c.Acquire(t.Context(), "wanted")
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := s.Waiting(t, "wanted"); n != waiting {
			t.Fatalf("%d wait", n)
		}
		path.Cut()
		time.Sleep(5 * time.Second)
		path.Heal()
		time.Sleep(10 * time.Second)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		for i, l := range leases {
			if err := l.Check(t.Context()); err != nil {
				t.Fatalf("lease %d: %v", i, err)
			}
		}
	})
}
