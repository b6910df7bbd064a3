package cells

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlproject/pawl/internal/cell"
)

var (
	seed  = flag.Uint64("seed", 0, "run the world of this seed alone, 0: of seeds from 1 on")
	seeds = flag.Uint64("seeds", 20, "how many seeds to run")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFaults lives through a minute of a bad world for each seed.
func TestFaults(t *testing.T) {
	first, last := uint64(1), *seeds
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for n := first; n <= last; n++ {
		t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { live(t, n) })
		})
	}
}

func live(t *testing.T, n uint64) {
	w := newCluster(t, n)
	w.start(0)
	w.start(1)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	w.setBad(true)
	var all sync.WaitGroup
	all.Go(func() { w.mischief(ctx) })
	for i := range 4 {
		all.Go(func() { w.single(ctx, fmt.Sprintf("single%d", i)) })
		all.Go(func() { w.streamer(ctx, fmt.Sprintf("stream%d", i)) })
	}
	all.Wait()
	w.setBad(false)

	// Everybody has gone: every name is free before long.
	quiet, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	for _, name := range names {
		for {
			s := w.active()
			l, err := s.Acquire(quiet, cell.AcquireRequest{Names: []string{name}, Wait: 10 * time.Second})
			if err == nil {
				if err := s.Release(quiet, l.ID); err != nil {
					t.Errorf("release %s: %v", name, err)
				}
				break
			}
			if !pause(quiet, 100*time.Millisecond) {
				t.Fatalf("I10: %s cannot be had again: %v", name, err)
			}
		}
	}
	st, err := w.active().Status(quiet)
	if err != nil || st.Sessions != 0 || st.Leases != 0 || st.Waiters != 0 {
		pause(quiet, 10*time.Second)
		if st, err = w.active().Status(quiet); err != nil || st.Sessions != 0 || st.Leases != 0 || st.Waiters != 0 {
			t.Errorf("left over: %+v %v", st, err)
		}
	}
	w.stop(0, false)
	w.stop(1, false)
	w.audit()
	t.Logf("%+v", w.stats)
	if w.stats.grants == 0 {
		t.Error("nobody was granted anything")
	}
}
