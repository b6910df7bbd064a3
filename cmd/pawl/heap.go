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
	heapRoom = 32 << 20
	// heapLook is the pause between two looks at the heap.
	heapLook = 10 * time.Second
	// heapQuiet is more than what an idle server allocates between two looks.
	heapQuiet = 8 << 20
)

// paceHeap sets the collector's pace to the heap that is in use until ctx ends:
// a small one may grow by heapRoom, a large one by its own size, as is usual.
// When a load is over, what it left is given back to the system, which the
// collector by itself does late and in part.
func paceHeap(ctx context.Context, k clock.Clock) {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	var before, given uint64 // allocated in all, at the last look and when memory was last given back
	t := k.NewTimer()
	defer t.Stop()
	for {
		metrics.Read(heap)
		debug.SetGCPercent(gcPercent(heap[0].Value.Uint64()))
		allocated := heap[1].Value.Uint64()
		if allocated-before < heapQuiet && allocated-given > heapRoom/2 {
			debug.FreeOSMemory()
			given = allocated
		}
		before = allocated
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
