package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// table collects the rounds of every measurement.
type table struct{ rows []*series }

func (t *table) row(what, side string) *series {
	i := slices.IndexFunc(t.rows, func(s *series) bool { return s.what == what && s.side == side })
	if i < 0 {
		return nil
	}
	return t.rows[i]
}

func (t *table) add(what, side string, r result) {
	s := t.row(what, side)
	if s == nil {
		s = &series{what: what, side: side}
		t.rows = append(t.rows, s)
	}
	s.rounds = append(s.rounds, r)
}

func (s *series) rates() (all []float64) {
	for _, r := range s.rounds {
		all = append(all, r.rate)
	}
	return all
}

func (s *series) p50s() (all []time.Duration) {
	for _, r := range s.rounds {
		all = append(all, r.p50)
	}
	return all
}

func (s *series) p99s() (all []time.Duration) {
	for _, r := range s.rounds {
		all = append(all, r.p99)
	}
	return all
}

// times is the median over the rounds of a's rate by b's in the same round: what
// disturbed one round disturbed both.
func times(a, b *series) float64 {
	var all []float64
	for i := range min(len(a.rounds), len(b.rounds)) {
		all = append(all, a.rounds[i].rate/b.rounds[i].rate)
	}
	return median(all)
}

// slower is the same of the median times to acquire.
func slower(a, b *series) float64 {
	var all []float64
	for i := range min(len(a.rounds), len(b.rounds)) {
		all = append(all, float64(a.rounds[i].p50)/float64(b.rounds[i].p50))
	}
	return median(all)
}

func (t *table) print(to io.Writer) {
	fmt.Fprintln(to)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\t\tmedian\tlowest\thighest\tacquire p50\tp99\tpawl is\t")
	for _, s := range t.rows {
		rates := s.rates()
		ratio := ""
		if ours := t.row(s.what, "pawl"); ours != s && s.side == "etcd Mutex" {
			ratio = fmt.Sprintf("%.2fx", times(ours, s))
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t\n", s.what, s.side,
			median(rates), slices.Min(rates), slices.Max(rates), millis(median(s.p50s())), millis(median(s.p99s())), ratio)
	}
	_ = w.Flush() // an error shows: to is the terminal
	fmt.Fprintln(to)
	one := pairsOf(1)
	fmt.Fprintf(to, "ratio: one caller, acquire p50 by an etcd put's, lower is better: %.2f (first 1.0, aim 0.7)\n",
		slower(t.row(one, "pawl"), t.row(one, "etcd put")))
	for _, what := range []string{pairsOf(64), handOvers(16)} {
		fmt.Fprintf(to, "ratio: %s, pawl by etcd Mutex: %.2f (first 5, aim 10)\n", what, times(t.row(what, "pawl"), t.row(what, "etcd Mutex")))
	}
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
