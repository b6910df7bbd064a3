package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

const (
	// heapRoom is what the collector may let a small heap grow by before it runs:
	// at a small heap's default pace it would take a sixth of a busy server.
	heapRoom = 48 << 20
	// heapLook is the pause between two looks at the heap.
	heapLook = 10 * time.Second
)

// paceHeap sets the collector's pace to the heap that is in use until ctx ends:
// a small one may grow by heapRoom, a large one by its own size, as is usual.
func paceHeap(ctx context.Context, k clock.Clock) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	t := k.NewTimer()
	defer t.Stop()
	for {
		metrics.Read(live)
		debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
		t.Reset(heapLook)
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
	}
}

// gcPercent is how much of a live heap may be added to it, in percent.
func gcPercent(live uint64) int {
	return int(min(max(100, heapRoom*100/max(live, 1)), 1000))
}
