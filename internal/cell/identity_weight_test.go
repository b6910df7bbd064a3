package cell

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A page of a thousand names costs a turn what hundreds of other commands do: an
// identity gets no more of them into one than of those.
func TestListingsCountTowardsIdentityShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clock.Bubble()
		c := New(Options{Store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), Clock: k, Name: "test"})
		in := newIntake() // nothing is taken from it
		c.now = &tenure{intake: in}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		taken := func(who string, n int, l locktable.List) int {
			in.mu.Lock()
			before := len(in.urgent)
			in.mu.Unlock()
			for range n {
				go func() { _, _ = c.List(As(ctx, who), l) }()
			}
			synctest.Wait()
			in.mu.Lock()
			defer in.mu.Unlock()
			return len(in.urgent) - before
		}
		if n := taken("a", 1000, locktable.List{}); n == 0 || n > 64 {
			t.Errorf("%d pages of one identity were taken in", n)
		}
		if n := taken("b", 1000, locktable.List{Limit: 1, WithoutQueue: true}); n != 1000 {
			t.Errorf("%d of another's small questions were taken in", n)
		}
		cancel()
		synctest.Wait()
	})
}
