package main

import (
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	const ms = time.Millisecond
	var tab table
	add := func(what, side string, rates ...float64) {
		for i, r := range rates {
			tab.add(what, side, result{
				rate: r, p50: time.Duration(i+1) * ms, p99: 10 * ms,
				client: 12 * time.Microsecond, server: time.Duration(i+1) * ms,
			})
		}
	}
	// The second round was disturbed, on both sides.
	add(pairsOf(1), "pawl", 800, 400, 800)
	add(pairsOf(1), "etcd Mutex", 400, 200, 500)
	add(pairsOf(1), "etcd put", 900, 500, 900)
	add(pairsOf(64), "pawl", 20000, 9000, 21000)
	add(pairsOf(64), "etcd Mutex", 4000, 1500, 3000)
	add(handOvers(16), "pawl", 700, 800, 900)
	add(handOvers(16), "etcd Mutex", 140, 160, 150)
	var out strings.Builder
	tab.print(&out)
	for _, want := range []string{
		"pairs/s, 1 caller pawl 800 400 800 2.00 ms 10.00 ms 12 µs 2000 µs",
		"etcd Mutex 3000 1500 4000 2.00 ms 10.00 ms 12 µs 2000 µs 6.00x",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
	for _, want := range []string{
		"| pairs/s, 64 callers | pawl | 20000 | 9000 | 21000 | 2.00 ms | 10.00 ms | 12 µs | 2000 µs |  |\n",
		"|  | etcd Mutex | 3000 | 1500 | 4000 | 2.00 ms | 10.00 ms | 12 µs | 2000 µs | 6.00x |\n",
	} {
		if got := tab.markdown(); !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	const lines = `ratio: one caller, acquire p50 by an etcd put's, lower is better: 1.00 (first 1.0, aim 0.7)
ratio: pairs/s, 64 callers, pawl by etcd Mutex: 6.00 (first 5, aim 10)
ratio: hand-overs/s, 16 waiters on one name, pawl by etcd Mutex: 5.00 (first 5, aim 10)`
	if got := strings.Join(quickLines(&tab), "\n"); got != lines {
		t.Errorf("ratio lines:\n%s\nwant\n%s", got, lines)
	}
}
