package cell_test

import (
	"errors"
	"testing"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A server that does not serve says what its store waits for, to callers and in its status;
// once nothing is waited for it says no more than that it is not the active one.
func TestRefusalSaysWhatIsWaitedFor(t *testing.T) {
	waits := "a majority"
	c := cell.New(cell.Options{
		Store: memstore.NewDisk().Store(memstore.Options{Clock: clock.System(), ActiveTTL: activeTTL}),
		Clock: clock.System(), Name: "test", ActiveTTL: activeTTL, Waits: func() string { return waits },
	})
	for _, says := range []string{"this server is not the active one; it waits for a majority", cell.NotActive} {
		_, err := c.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"a"}})
		var refused *cell.RefusedError
		if !errors.As(err, &refused) || refused.Reason != locktable.Unavailable || refused.Message != says {
			t.Errorf("it says %v, expected %q", err, says)
		}
		if st, err := c.Status(t.Context()); err != nil || st.Waits != waits {
			t.Errorf("the status says %q (%v)", st.Waits, err)
		}
		waits = ""
	}
}
