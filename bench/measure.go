package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// taker takes a name for a caller; release gives it back.
type taker func(ctx context.Context, caller int) (release func(context.Context) error, err error)

// result is what one round measured.
type result struct {
	// rate is completed turns a second, p50 and p99 the time to acquire.
	rate     float64
	p50, p99 time.Duration
}

// measure lets callers take turns for warm, which is not counted, and span.
func measure(ctx context.Context, callers int, warm, span time.Duration, take taker) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now().Add(warm)
	end := begin.Add(span)
	waits := make([][]time.Duration, callers)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				if asked.After(end) {
					return
				}
				release, err := take(ctx, caller)
				granted := time.Now()
				if err == nil {
					err = release(ctx)
				}
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
	all.Wait()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(waits...)))
	return result{
		rate: float64(len(sorted)) / span.Seconds(),
		p50:  quantile(sorted, 0.50), p99: quantile(sorted, 0.99),
	}, nil
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
