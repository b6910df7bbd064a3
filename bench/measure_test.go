package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeasureCountsWholeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait, hold = 30 * time.Millisecond, 20 * time.Millisecond
		turns := func(context.Context, int) (func(context.Context) error, error) {
			time.Sleep(wait)
			return func(context.Context) error { time.Sleep(hold); return nil }, nil
		}
		got, err := measure(t.Context(), 4, time.Second+time.Millisecond, 10*time.Second, turns)
		if err != nil {
			t.Fatal(err)
		}
		// 199 whole turns of each caller lie in the ten seconds.
		if want := (result{rate: 4 * 19.9, p50: wait, p99: wait}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestMeasureEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	_, err := measure(t.Context(), 3, 0, time.Hour, func(ctx context.Context, caller int) (func(context.Context) error, error) {
		if caller == 1 {
			return nil, broken
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "caller 1") {
		t.Errorf("%v, want the error of caller 1", err)
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(test.of); got != test.want {
			t.Errorf("median %v = %v, want %v", test.of, got, test.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(i))
	}
	if a, b, c := quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1); a != 50 || b != 99 || c != 99 || quantile(nil, 0.5) != 0 {
		t.Errorf("%d %d %d", a, b, c)
	}
}
