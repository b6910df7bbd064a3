package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRatioLines(t *testing.T) {
	r := newReport()
	r.note("pairs", 6.254)
	r.note("sessions", 0.0424)
	r.note("clients", 0) // not measured
	r.missing["redis"] = "redis-server is not installed"
	r.note("cluster", math.Inf(1))
	lines := r.lines()
	for _, want := range []string{
		"ratio: pairs/s, 64 callers, pawl by etcd Mutex: 6.25 (first 5, aim 10)",
		"ratio: 10,000 sessions at TTL 15 s over 100 connections, cores of the server, lower is better: 0.042 (first 0.15, aim 0.05)",
		"ratio: pairs/s, 64 callers, pawl by Redis with appendfsync always: not measured: redis-server is not installed (first 1.2, aim 2)",
		"ratio: pairs/s, 64 callers, both on one etcd of three members, pawl by etcd Mutex: not measured: one of the sides completed nothing (first 3.5, aim 8)",
		"ratio: pairs/s, 64 clients of one caller each, pawl by etcd Mutex: not measured: this run left it out (first 1.5, aim 3)",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing: %s\n%s", want, strings.Join(lines, "\n"))
		}
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "ratio: ") {
			t.Errorf("%q is no ratio line", l)
		}
	}
	if len(lines) != len(aims)+len(later) {
		t.Errorf("%d lines, want one for each of %d aims and %d later ones", len(lines), len(aims), len(later))
	}
}

func TestReportOfSmallRunIsMarked(t *testing.T) {
	var real, small strings.Builder
	newReport().print(&real, true)
	newReport().print(&small, false)
	if n := strings.Count(real.String(), "\nratio: "); n != len(aims)+len(later) {
		t.Errorf("%d ratio lines of a real run", n)
	}
	if strings.Contains(small.String(), "\nratio: ") {
		t.Errorf("a run that is not to size can be taken for a real one:\n%s", &small)
	}
}

func TestPageOfARun(t *testing.T) {
	r := newReport()
	r.parts["turns"] = "| table |\n"
	whole := r.page("two cores.", true)
	if whole["turns"] != "| table |\n" || whole["machine"] != "two cores." || whole["summary"] == "" || whole["losses"] == "" {
		t.Errorf("a whole run writes %q", whole)
	}
	part := r.page("two cores.", false)
	if want := "| table |\n\nMeasured in a run of its own: two cores."; len(part) != 1 || part["turns"] != want {
		t.Errorf("a part of a run writes %q", part)
	}
}

func TestReached(t *testing.T) {
	higher := aim{what: "pairs", first: "5", aim: "10"}
	lower := aim{what: "seconds, lower is better", first: "active-ttl + 2 = 5", aim: "3.5"}
	for _, test := range []struct {
		aim  aim
		v    float64
		want string
	}{
		{higher, 4.99, "neither"},
		{higher, 5, "first"},
		{higher, 9, "first"},
		{higher, 10, "aim"},
		{lower, 5.1, "neither"},
		{lower, 5, "first"},
		{lower, 3.4, "aim"},
	} {
		if got := test.aim.reached(test.v); got != test.want {
			t.Errorf("%v of %s reaches %s, want %s", test.v, test.aim.what, got, test.want)
		}
	}
}

func TestLossesAreListed(t *testing.T) {
	var tab table
	for side, rate := range map[string]float64{ours: 500, etcdMutex: 400, redisLoose: 10_000, etcdPut: 900} {
		tab.add(pairsOf(1), side, result{rate: rate})
	}
	r := newReport()
	if got := r.list(); got != "Nowhere in these tables." {
		t.Errorf("%q of no table", got)
	}
	r.lost(&tab)
	if got, want := r.list(), "- pairs/s, 1 caller: 0.050 times the rate of Redis, not durable"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEveryAimNamesRows(t *testing.T) {
	var keys []string
	for _, r := range rows {
		keys = append(keys, r.keys...)
	}
	for _, a := range aims {
		if n := len(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k != a.key })); n != 1 {
			t.Errorf("%d rows look at %s, want one", n, a.key)
		}
	}
	if len(keys) != len(aims) {
		t.Errorf("rows look at %v, of which some are no aim", keys)
	}
}

func TestFit(t *testing.T) {
	big, takes := fullPlan.fit(rows, time.Hour)
	if big.rounds != 7 || big.kills != 50 || takes > time.Hour {
		t.Errorf("an hour: %d rounds, %d kills, %v", big.rounds, big.kills, takes)
	}
	half, takes := fullPlan.fit(rows, 30*time.Minute)
	if half.rounds < 3 || half.kills < 20 || takes > 30*time.Minute {
		t.Errorf("half an hour: %d rounds, %d kills, %v; want at least 3 and 20", half.rounds, half.kills, takes)
	}
	least, takes := fullPlan.fit(rows, time.Second)
	if least.rounds != 1 || least.kills != 5 || takes < time.Second {
		t.Errorf("a second: %d rounds, %d kills, %v; want the least, and the truth", least.rounds, least.kills, takes)
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(rows) {
		t.Errorf("%d rows, %v", len(all), err)
	}
	two, err := choose("turns,pairs")
	if err != nil || len(two) != 2 || two[0].name != "turns" || two[1].name != "pairs" {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := choose("pairs,nothing"); err == nil {
		t.Error("an unknown row was chosen")
	}
}

func TestGrantsLongest(t *testing.T) {
	var g grants
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, ms := range []int{0, 500, 501, 503, 603, 604} {
		g.add(at(ms-1), at(ms))
	}
	// The half second lies before the end.
	if got := g.longest(at(502)); got != 100*time.Millisecond {
		t.Errorf("%v, want 100ms", got)
	}
	if !g.askedAfter(at(602)) || g.askedAfter(at(603)) {
		t.Error("the last grant was asked for at 603 ms")
	}
}

func TestSyncs(t *testing.T) {
	p50, p99, err := syncs(t.TempDir(), 10)
	if err != nil || p50 <= 0 || p99 < p50 {
		t.Errorf("%v, %v, %v", p50, p99, err)
	}
}
