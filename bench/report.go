package main

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
)

// aim is a row of the table that pawl is to reach.
type aim struct {
	key, what  string
	first, aim string
}

// aims in the order of the table. Lower is better where it says so.
var aims = []aim{
	{"one", "one caller, acquire p50 by an etcd put's, lower is better", "1.0", "0.7"},
	{"pairs", pairsOf(64) + ", pawl by etcd Mutex", "5", "10"},
	{"cluster", pairsOf(64) + ", both on one etcd of three members, pawl by etcd Mutex", "3.5", "8"},
	{"quorum", pairsOf(64) + ", a quorum of three pawl servers by etcd Mutex on three members", "5", "8"},
	{"redis", pairsOf(64) + ", pawl by Redis with appendfsync always", "1.2", "2"},
	{"turns-etcd", handOvers(16) + ", pawl by etcd Mutex", "5", "10"},
	{"turns-zookeeper", handOvers(16) + ", pawl by ZooKeeper's recipe", "1", "2"},
	{"clients", "pairs/s, 64 clients of one caller each, pawl by etcd Mutex", "1.5", "3"},
	{"sessions", "10,000 sessions at TTL 15 s over 100 connections, cores of the server, lower is better", "0.15", "0.05"},
	{"memory", "1,000,000 held leases, server's resident memory in GiB, lower is better", "1", "0.5"},
	{"take-over", "1,000,000 held leases, take-over in s, lower is better", "10", "1"},
	{"followed", "1,000,000 held leases on a quorum of three, active server stopped cleanly, longest time until a standby that follows grants in s, lower is better", "10", "1"},
	{"killed", "active server killed, its standby goes on, p99 of the time to the next grant in s, lower is better", "active-ttl + 2 = 5", "3.5"},
	{"killed-alone", "the only server killed and started again, p99 of the time to the next grant in s, lower is better", "5", "3.5"},
	{"stopped", "active server stopped cleanly, its standby goes on, p99 of the time to the next grant in s, lower is better", "1", "0.2"},
	{"stopped-alone", "the only server stopped cleanly and started again, p99 of the time to the next grant in s, lower is better", "1", "0.2"},
	{"guard", "parallel transactions of one holder under pgguard, 8 connections, by none", "0.8", "0.9"},
}

// later are rows that need what pawl does not have yet.
var later = []string{
	pairsOf(64) + ", pawl on ZooKeeper by ZooKeeper's recipe: needs the ZooKeeper store, which comes later",
}

// report is what a run found.
type report struct {
	ratios map[string]float64
	// missing says why a ratio could not be measured.
	missing map[string]string
	// losses are where another side was faster.
	losses []string
	// parts are for the page about performance, by the names of their markers.
	parts map[string]string
}

func newReport() *report {
	return &report{ratios: map[string]float64{}, missing: map[string]string{}, parts: map[string]string{}}
}

// line is how a run ends, for one aim.
func (r *report) line(a aim) string {
	if v, ok := r.ratios[a.key]; ok {
		return fmt.Sprintf("ratio: %s: %s (first %s, aim %s)", a.what, ratioText(v), a.first, a.aim)
	}
	why := r.missing[a.key]
	if why == "" {
		why = "this run left it out"
	}
	return fmt.Sprintf("ratio: %s: not measured: %s (first %s, aim %s)", a.what, why, a.first, a.aim)
}

// ratioText shows small values with a digit more.
func ratioText(v float64) string {
	if v < 0.1 {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *report) lines() []string {
	var all []string
	for _, a := range aims {
		all = append(all, r.line(a))
	}
	for _, l := range later {
		all = append(all, "ratio: "+l)
	}
	return all
}

// print writes the lines; where sizes are not those that the lines name, they
// do not begin as lines of a real run do.
func (r *report) print(to io.Writer, real bool) {
	fmt.Fprintln(to)
	for _, l := range r.lines() {
		if !real {
			l = "not to size, " + l
		}
		fmt.Fprintln(to, l)
	}
}

// summary is the same as a table, for the page.
func (r *report) summary() string {
	var b strings.Builder
	b.WriteString("| | measured | first | aim | reached |\n|---|---|---|---|---|\n")
	for _, a := range aims {
		value, reached := r.missing[a.key], ""
		if v, ok := r.ratios[a.key]; ok {
			value, reached = "**"+ratioText(v)+"**", a.reached(v)
		} else if value == "" {
			value = "left out"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", a.what, value, a.first, a.aim, reached)
	}
	for _, l := range later {
		what, why, _ := strings.Cut(l, ": ")
		fmt.Fprintf(&b, "| %s | %s | | | |\n", what, why)
	}
	return b.String()
}

// page is the part of a document that a run writes. The summary of all rows is
// meaningful only if all were measured in one run; a part that was measured alone says
// so.
func (r *report) page(machine string, all bool) map[string]string {
	parts := maps.Clone(r.parts)
	if all {
		parts["machine"], parts["summary"], parts["losses"] = machine, r.summary(), r.list()
		return parts
	}
	for name, text := range parts {
		parts[name] = strings.TrimRight(text, "\n") + "\n\nMeasured in a run of its own: " + machine
	}
	return parts
}

// reached says which of the two a value reaches.
func (a aim) reached(v float64) string {
	lower := strings.HasSuffix(a.what, "lower is better")
	meets := func(bound string) bool {
		words := strings.Fields(bound)
		b, err := strconv.ParseFloat(words[len(words)-1], 64)
		return err == nil && (v == b || v < b == lower)
	}
	switch {
	case meets(a.aim):
		return "aim"
	case meets(a.first):
		return "first"
	default:
		return "neither"
	}
}

// lost notes where pawl was slower than another side of a table.
func (r *report) lost(t *table) {
	for _, s := range t.rows {
		us := t.row(s.what, ours)
		if us == nil || us == s || s.side == etcdPut {
			continue
		}
		if v := times(us, s); v < 1 {
			r.losses = append(r.losses, fmt.Sprintf("%s: %s times the rate of %s", s.what, ratioText(v), s.side))
		}
	}
}

// list is the losses for the page.
func (r *report) list() string {
	if len(r.losses) == 0 {
		return "Nowhere in these tables."
	}
	return "- " + strings.Join(r.losses, "\n- ")
}
