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
		turns := func(context.Context, int) (held, error) {
			time.Sleep(wait)
			return held{release: func(context.Context) error { time.Sleep(hold); return nil }}, nil
		}
		// The server is busy all the time, the client half of it.
		began := time.Now()
		used := func() usage { return usage{client: time.Since(began) / 2, server: time.Since(began)} }
		got, err := measure(t.Context(), trial{
			callers: 4, warm: time.Second + time.Millisecond, span: 10 * time.Second, take: turns, used: used,
		})
		if err != nil {
			t.Fatal(err)
		}
		// 199 whole turns of each caller lie in the ten seconds.
		want := result{rate: 4 * 19.9, p50: wait, p99: wait, client: 5 * time.Second / 796, server: 10 * time.Second / 796}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestMeasureEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	_, err := measure(t.Context(), trial{callers: 3, span: time.Hour, take: func(ctx context.Context, caller int) (held, error) {
		if caller == 1 {
			return held{}, broken
		}
		<-ctx.Done()
		return held{}, ctx.Err()
	}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "caller 1") {
		t.Errorf("%v, want the error of caller 1", err)
	}
}

func TestMeasureEndsWithAWrongGrant(t *testing.T) {
	_, err := measure(t.Context(), trial{callers: 1, span: time.Hour, judge: &judge{}, take: func(context.Context, int) (held, error) {
		return held{name: "a", token: 7, release: func(context.Context) error { return nil }}, nil
	}})
	if err == nil || !strings.Contains(err.Error(), "wrong grant") {
		t.Errorf("%v, want the token that stands still to end it", err)
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
