package tuning

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

const (
	// heapRoom is what the collector may let a small heap grow by before it runs:
	// at a small heap's default pace it would take a sixth of a busy server.
	heapRoom = 32 << 20
	// heapCheckGap is the pause between two looks at the heap.
	heapCheckGap = 10 * time.Second
	// heapWide is from where on a large heap may not grow by its own size any more,
	// but by half of it: a million leases must fit into 1 GiB.
	heapWide = 100 << 20
	// heapQuiet is more than what an idle server allocates between two looks.
	heapQuiet = 8 << 20
)

// PaceHeap sets the collector's pace by the heap in use, until ctx ends. A small heap
// may grow by heapRoom, a larger one by its own size, as is usual, and one beyond
// heapWide by half of it. A pace set by GOGC is not changed. When a load is over,
// PaceHeap returns its memory to the system, which the collector does late and only in
// part.
func PaceHeap(ctx context.Context, k clock.Clock) {
	if os.Getenv("GOGC") == "" {
		eachCollection(ctx, setPace)
	}
	heap := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var before, given uint64 // allocated in all, at the last look and when memory was last given back
	t := k.NewTimer()
	defer t.Stop()
	for {
		metrics.Read(heap)
		allocated := heap[0].Value.Uint64()
		if allocated-before < heapQuiet && allocated-given > heapRoom/2 {
			debug.FreeOSMemory()
			given = allocated
		}
		before = allocated
		t.Reset(heapCheckGap)
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
	}
}

func setPace() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
}

// eachCollection calls f now and after every collection until ctx ends. A take-over of
// a million leases fills the heap within a second, so a pace that is set less often
// stays that of an empty heap.
func eachCollection(ctx context.Context, f func()) {
	if ctx.Err() != nil {
		return
	}
	f()
	garbage := new([32]byte)
	runtime.AddCleanup(garbage, func(ctx context.Context) { eachCollection(ctx, f) }, ctx)
}

// gcPercent is how much of a live heap may be added to it, in percent.
func gcPercent(live uint64) int {
	room := max(heapRoom, min(live, heapWide), live/2)
	return int(min(room*100/max(live, 1), 1000))
}
