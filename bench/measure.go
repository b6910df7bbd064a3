package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// held is what a caller was granted.
type held struct {
	// name is what is held; empty: nothing that excludes anybody.
	name string
	// token orders the grants of a name; 0: the peer has none.
	token   uint64
	release func(ctx context.Context) error
}

// acquireFunc acquires a name for a caller.
type acquireFunc func(ctx context.Context, caller int) (held, error)

// trial is one measurement of one side.
type trial struct {
	callers int
	// warm is not counted, span is.
	warm, span time.Duration
	take       acquireFunc
	judge      *judge
	// used reads the processor time spent so far; nil: nobody asks.
	used func() usage
}

// result is what one round measured.
type result struct {
	// rate is completed turns a second, p50 and p99 the time to acquire.
	rate     float64
	p50, p99 time.Duration
	// client and server are processor time per turn.
	client, server time.Duration
}

// measure lets callers take turns. The first error ends it: no result is made
// of a part of the callers.
func measure(ctx context.Context, t trial) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now().Add(t.warm)
	end := begin.Add(t.span)
	waits := make([][]time.Duration, t.callers)
	var all sync.WaitGroup
	for caller := range t.callers {
		all.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				if asked.After(end) {
					return
				}
				granted, err := t.turn(ctx, caller)
				if err != nil {
					cancel(fmt.Errorf("caller %d: %w", caller, err))
					return
				}
				if asked.After(begin) && !time.Now().After(end) {
					waits[caller] = append(waits[caller], granted.Sub(asked))
				}
			}
		})
	}
	spent := t.spent(ctx, begin, end)
	all.Wait()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(waits...)))
	r := result{
		rate: float64(len(sorted)) / t.span.Seconds(),
		p50:  quantile(sorted, 0.50), p99: quantile(sorted, 0.99),
	}
	if n := time.Duration(len(sorted)); n > 0 {
		r.client, r.server = spent.client/n, spent.server/n
	}
	return r, nil
}

// turn takes and gives back once, and says when it was granted.
func (t *trial) turn(ctx context.Context, caller int) (granted time.Time, err error) {
	h, err := t.take(ctx, caller)
	granted = time.Now()
	if err != nil {
		return granted, err
	}
	if err := t.judge.granted(h, caller); err != nil {
		return granted, err
	}
	t.judge.released(h)
	return granted, h.release(ctx)
}

// spent is the processor time used between begin and end.
func (t *trial) spent(ctx context.Context, begin, end time.Time) usage {
	if t.used == nil {
		return usage{}
	}
	at := func(when time.Time) usage {
		select {
		case <-time.After(time.Until(when)):
		case <-ctx.Done():
		}
		return t.used()
	}
	before := at(begin)
	return at(end).less(before)
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median of an odd or even number of values; 0 of none.
func median[T float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
