package sim

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/step"
)

// Summary is what many runs gave.
type Summary struct {
	Runs     int
	Failures []uint64
	Lived    time.Duration
	// Trace sums up the traces of all runs, whatever their order.
	Trace uint64
	Tally Tally
}

// Many runs worlds for seeds from first on, each in one thread, as many in parallel as
// there are processors. Failures are in the order of their seeds. found is called for
// each as it happens, one at a time.
func Many(first uint64, runs int, found func(seed uint64, f *Failure)) Summary {
	var next atomic.Uint64
	var mu sync.Mutex
	var all sync.WaitGroup
	sum := Summary{Runs: runs}
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= uint64(runs) {
					return
				}
				r := Run(Draw(first+i), false)
				mu.Lock()
				sum.add(first+i, r)
				if r.Failure != nil && found != nil {
					found(first+i, r.Failure)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(sum.Failures)
	return sum
}

func (s *Summary) add(seed uint64, r Result) {
	if r.Failure != nil {
		s.Failures = append(s.Failures, seed)
	}
	s.Lived += r.Lived
	s.Trace += r.Trace
	t := &s.Tally
	t.Events += r.Tally.Events
	t.Grants += r.Tally.Grants
	t.Expiries += r.Tally.Expiries
	t.Tenures += r.Tally.Tenures
	t.Refusals += r.Tally.Refusals
	t.Effects += r.Tally.Effects
	t.Rollbacks += r.Tally.Rollbacks
	t.Resumed += r.Tally.Resumed
	t.Moved += r.Tally.Moved
	t.Observed += r.Tally.Observed
	t.Exhausted += r.Tally.Exhausted
	t.Overruns += r.Tally.Overruns
	t.Late += r.Tally.Late
	t.Spared += r.Tally.Spared
	t.TakenUp += r.Tally.TakenUp
	t.Lapsed += r.Tally.Lapsed
	t.TTLs += r.Tally.TTLs
	t.Rides += r.Tally.Rides
	t.Returns += r.Tally.Returns
	t.Overtaken += r.Tally.Overtaken
	t.Looks += r.Tally.Looks
	t.ClaimOnly += r.Tally.ClaimOnly
	t.Unguarded += r.Tally.Unguarded
	t.Unclaimed += r.Tally.Unclaimed
}

// Explain makes a failing seed's world as small as it can and tells its story.
func Explain(out io.Writer, seed uint64) {
	small, r := Shrink(Draw(seed))
	if r.Failure == nil {
		fmt.Fprintf(out, "seed %d does not fail any more\n", seed)
		return
	}
	fmt.Fprintf(out, "\nseed %d, made smaller, fails at %v:\n  %v\n", seed, r.Failure.At, r.Failure)
	fmt.Fprintf(out, "  servers %d, active-ttl %v, names %d, faults end at %v\n", small.Servers, small.ActiveTTL, small.Names, small.FaultsEnd)
	for _, c := range small.Clients {
		fmt.Fprintf(out, "  client%d %+v\n", c.ID+1, c)
	}
	for _, c := range small.Unary {
		fmt.Fprintf(out, "  unary%d %+v\n", c.ID+1, c)
	}
	if small.FaultRates != (FaultRates{}) {
		fmt.Fprintf(out, "  fault rates %+v\n", small.FaultRates)
	}
	if small.Bounds != (step.TurnBounds{}) {
		fmt.Fprintf(out, "  bounds %+v\n", small.Bounds)
	}
	for _, x := range small.WallSteps {
		fmt.Fprintf(out, "  wall clock of server %d (0: all) set by %v at %v\n", x.Server+1, x.By, x.At)
	}
	for _, q := range small.Quiet[:min(len(small.Quiet), 20)] {
		fmt.Fprintf(out, "  quiet %+v\n", q)
	}
	if small.Rides != nil {
		fmt.Fprintf(out, "  rides %+v\n", *small.Rides)
	}
	for _, f := range small.Faults {
		fmt.Fprintf(out, "  fault: %v\n", f)
	}
	WriteTimeline(out, r.Timeline)
}
