package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// series is one row of a table: the rounds of one measurement on one side.
type series struct {
	what, side string
	rounds     []result
}

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

func of[T any](s *series, f func(result) T) (all []T) {
	for _, r := range s.rounds {
		all = append(all, f(r))
	}
	return all
}

func (s *series) rates() []float64 { return of(s, func(r result) float64 { return r.rate }) }

func (s *series) p50() time.Duration {
	return median(of(s, func(r result) time.Duration { return r.p50 }))
}

func (s *series) p99() time.Duration {
	return median(of(s, func(r result) time.Duration { return r.p99 }))
}

func (s *series) client() time.Duration {
	return median(of(s, func(r result) time.Duration { return r.client }))
}

func (s *series) server() time.Duration {
	return median(of(s, func(r result) time.Duration { return r.server }))
}

// times divides a's rate by b's rate of the same round, since what disturbs a round
// disturbs both, and returns the median over the rounds; 0 when a or b was not
// measured.
func times(a, b *series) float64 {
	return ratio(a, b, func(r result) float64 { return r.rate })
}

// slower is the same of the median times to acquire.
func slower(a, b *series) float64 {
	return ratio(a, b, func(r result) float64 { return float64(r.p50) })
}

func ratio(a, b *series, f func(result) float64) float64 {
	if a == nil || b == nil {
		return 0
	}
	var all []float64
	for i := range min(len(a.rounds), len(b.rounds)) {
		all = append(all, f(a.rounds[i])/f(b.rounds[i]))
	}
	return median(all)
}

var columns = []string{"", "", "median", "lowest", "highest", "acquire p50", "p99", "client CPU", "server CPU", "pawl is"}

// cells are what a row says, in the order of columns.
func (t *table) cells(s *series) []string {
	rates, is := s.rates(), ""
	if us := t.row(s.what, ours); us != nil && us != s && s.side != etcdPut {
		is = fmt.Sprintf("%.2fx", times(us, s))
	}
	return []string{
		s.what, s.side,
		fmt.Sprintf("%.0f", median(rates)), fmt.Sprintf("%.0f", slices.Min(rates)), fmt.Sprintf("%.0f", slices.Max(rates)),
		millis(s.p50()), millis(s.p99()), micros(s.client()), micros(s.server()), is,
	}
}

func (t *table) print(to io.Writer) {
	fmt.Fprintln(to)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join(columns, "\t")+"\t")
	for _, s := range t.rows {
		fmt.Fprintln(w, strings.Join(t.cells(s), "\t")+"\t")
	}
	_ = w.Flush() // an error shows: to is the terminal
	fmt.Fprintln(to)
}

// markdown is the same for a page; what repeats is not said again.
func (t *table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(columns)
	b.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	last := ""
	for _, s := range t.rows {
		cells := t.cells(s)
		if s.what == last {
			cells[0] = ""
		}
		last = s.what
		line(cells)
	}
	return b.String()
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
}
