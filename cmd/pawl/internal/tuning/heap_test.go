package tuning

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"
)

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1000}, {2 << 20, 1000}, {8 << 20, 400}, {32 << 20, 100}, {100 << 20, 100}, {200 << 20, 50}, {1 << 30, 50},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("a live heap of %d bytes: %d %%, %d was expected", c.live, got, c.want)
		}
	}
}

func TestEachCollection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int64
	eachCollection(ctx, func() { calls.Add(1) })
	for range 3 {
		before := calls.Load()
		testwait.Until(t, time.Minute, "a call after a collection", func() bool {
			runtime.GC()
			return calls.Load() > before
		})
	}
}
