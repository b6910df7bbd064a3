package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// record is what a worker notes; its file has one a line.
type record struct {
	Kind  string `json:"k"`
	At    moment `json:"at"` // boot clock
	Name  string `json:"n,omitempty"`
	Token uint64 `json:"t,omitempty"`
	// Until is the deadline of a promise.
	Until moment `json:"u,omitempty"`
	// Rides: the lease may ride.
	Rides bool `json:"r,omitempty"`
	// Balance is what a write that was accepted left.
	Balance int64  `json:"b,omitempty"`
	Who     string `json:"w,omitempty"`
	Why     string `json:"y,omitempty"`
}

// The kinds of records.
const (
	// granted: an acquire returned with the lease.
	granted = "granted"
	// promised: at At the lease was held, and its holder had it until Until.
	promised = "promised"
	// letGo: the holder begins to release it.
	letGo = "let go"
	// ended: the holder sees that it has ended.
	ended = "ended"
	// wrote: a write was accepted.
	wrote = "wrote"
	// refused: a write was refused as stale.
	refused = "refused"
	// broke: the lease was broken by force.
	broke = "broke"
	// rode: the lease has begun to ride.
	rode = "rode"
)

// brokenPrefix begins the names that are broken by force.
const brokenPrefix = "broken/"

// trusted is the time in which a holder trusted its lease.
type trusted struct {
	name        string
	token       uint64
	who         string
	from, until moment
}

// lease is what the records say of one token.
type lease struct {
	trusted
	rides       bool
	shown       moment // the last promise's At
	letGo, over moment // -1: not seen
}

// leases are those that were granted, with a line for every token that was granted twice.
func leases(records []record) (all []*lease, twice []string) {
	byToken := map[uint64]*lease{}
	for _, r := range records {
		if r.Kind == granted {
			if before := byToken[r.Token]; before != nil {
				twice = append(twice, fmt.Sprintf("token %d was granted for %q at %v, and for %q at %v", r.Token, before.name, before.from, r.Name, r.At))
			}
			l := &lease{rides: r.Rides, letGo: -1, over: -1}
			l.trusted = trusted{name: r.Name, token: r.Token, who: r.Who, from: r.At, until: r.At}
			byToken[r.Token] = l
			all = append(all, l)
		}
	}
	for _, r := range records {
		l := byToken[r.Token]
		if l == nil {
			continue
		}
		switch r.Kind {
		case promised:
			l.until, l.shown = max(l.until, r.Until), max(l.shown, r.At)
		case letGo:
			l.letGo = r.At
		case ended:
			l.over = r.At
		}
	}
	return all, twice
}

// early reports whether a holder was told that its lease had ended before the deadline
// that it had been shown.
func (l *lease) early() bool {
	return l.over >= 0 && l.over < l.until && (l.letGo < 0 || l.over < l.letGo)
}

// interval is when the lease was trusted.
func (l *lease) interval() trusted {
	t := l.trusted
	if l.early() {
		t.until = max(l.shown, t.from)
	}
	if l.letGo >= 0 {
		t.until = min(t.until, l.letGo)
	}
	return t
}

// findOverlaps returns a line for every lease that was trusted while another of its name
// was, or whose token was granted before, and how many ended early.
func findOverlaps(records []record) (found []string, early int) {
	byName := map[string][]trusted{}
	all, found := leases(records)
	for _, l := range all {
		if strings.HasPrefix(l.name, brokenPrefix) {
			continue
		}
		if l.early() {
			early++
		}
		if !l.rides {
			byName[l.name] = append(byName[l.name], l.interval())
		}
	}
	for _, all := range byName {
		slices.SortFunc(all, func(a, b trusted) int { return cmp.Compare(a.from, b.from) })
		for i, latest := 1, 0; i < len(all); i++ {
			if before := all[latest]; before.until > all[i].from {
				found = append(found, fmt.Sprintf("%q: token %d was trusted by %s until %v, token %d by %s from %v on (%v)",
					before.name, before.token, before.who, before.until, all[i].token, all[i].who, all[i].from, before.until-all[i].from))
			}
			if all[i].until > all[latest].until {
				latest = i
			}
		}
	}
	slices.Sort(found)
	return found, early
}

// entry is a write that a resource has.
type entry struct {
	token   uint64
	balance int64
}

// tally returns how many entries of a resource follow one of a higher token, and how
// many writes were lost: acknowledged and missing, or written over.
func tally(entries []entry, balance int64, acknowledged []entry) (stale, lost int) {
	var highest uint64
	have := map[entry]bool{}
	for i, e := range entries {
		if e.token < highest {
			stale++
		}
		highest = max(highest, e.token)
		if e.balance != int64(i)+1 {
			lost++
		}
		have[e] = true
	}
	if missing := len(entries) - int(balance); missing > 0 {
		lost += missing
	}
	for _, e := range acknowledged {
		if !have[e] {
			lost++
		}
	}
	return stale, lost
}

// change is what becomes of nodes and links at a moment: counts of the reasons for which
// a node is down, or a link cut.
type change struct {
	at    moment
	node  string
	a, b  []string
	delta int
	what  string
}

// pair is a link, in the order of its nodes' names.
type pair [2]string

func link(a, b string) pair {
	if a > b {
		a, b = b, a
	}
	return pair{a, b}
}

// state counts reasons; a node without one is up, a link without one connects.
type state struct {
	down map[string]int
	cuts map[pair]int
}

func newState() state { return state{down: map[string]int{}, cuts: map[pair]int{}} }

func (s state) apply(c change) {
	if c.node != "" {
		s.down[c.node] += c.delta
	}
	for _, a := range c.a {
		for _, b := range c.b {
			s.cuts[link(a, b)] += c.delta
		}
	}
}

func (s state) up(n string) bool { return s.down[n] == 0 }

func (s state) connected(a, b string) bool {
	return s.up(a) && s.up(b) && (a == b || s.cuts[link(a, b)] == 0)
}

// all reports whether a node is connected to every one of these.
func (s state) all(n string, others []string) bool {
	return !slices.ContainsFunc(others, func(o string) bool { return !s.connected(n, o) })
}

// majorities are the groups of members, of a majority at least, of which each is connected
// to every other.
func (w world) majorities(s state) (all [][]string) {
	for set := range 1 << len(w.members) {
		var group []string
		for i, m := range w.members {
			if set>>i&1 == 1 {
				group = append(group, m)
			}
		}
		connected := !slices.ContainsFunc(group, func(m string) bool { return !s.all(m, group) })
		if len(group) > len(w.members)/2 && connected {
			all = append(all, group)
		}
	}
	return all
}

// able reports whether somebody should be granted something: a majority of members is
// connected, a server reaches all of it, and a worker reaches every server that reaches
// any of it, as that may be the active one.
func (w world) able(s state) bool {
	reaches := false
	var may []string
	groups := w.majorities(s)
	for _, server := range w.servers {
		for _, group := range groups {
			reaches = reaches || s.all(server, group)
			if !slices.Contains(may, server) && slices.ContainsFunc(group, func(m string) bool { return s.connected(server, m) }) {
				may = append(may, server)
			}
		}
	}
	return reaches && slices.ContainsFunc(w.workers, func(n string) bool { return s.up(n) && s.all(n, may) })
}

// gap is a time without a grant.
type gap struct {
	from, until moment
	// after is the change to which it belongs.
	after string
}

func (g gap) length() time.Duration { return g.until - g.from }

// usual is a time without a grant that needs no reason.
const usual = 100 * time.Millisecond

// samples returns for every change the longest time without a grant, while the world was
// able to grant, that began between it and the next one, or just before it. The slices
// are in their order.
func (w world) samples(changes []change, grants []moment, from, until moment) []gap {
	var all []gap
	s := newState()
	last := from // since when nothing was granted
	able := w.able(s)
	next := 0
	begin := func(at moment, what string) { all = append(all, gap{from: at, until: at, after: what}) }
	begin(from, "the beginning")
	// open is the sample to which the present gap belongs.
	open := 0
	shut := func(at moment) {
		if able && at-last > all[open].length() {
			all[open].from, all[open].until = last, at
		}
	}
	advance := func(to moment) {
		for ; next < len(grants) && grants[next] <= to; next++ {
			if grants[next] < from {
				continue
			}
			shut(grants[next])
			last, open = grants[next], len(all)-1
		}
	}
	for _, c := range changes {
		advance(c.at)
		before := able
		s.apply(c)
		now := w.able(s)
		if before && !now {
			shut(c.at)
		}
		begin(c.at, c.what)
		switch {
		case !before && now:
			last, open = c.at, len(all)-1
		case now && c.at-last < usual:
			open = len(all) - 1
		}
		able = now
	}
	advance(until)
	shut(until)
	return all
}

// worst returns the longest sample and the length at the 99th percentile.
func worst(samples []gap) (longest gap, p99 time.Duration) {
	sorted := slices.Clone(samples)
	slices.SortFunc(sorted, func(a, b gap) int { return cmp.Compare(a.length(), b.length()) })
	n := len(sorted)
	if n == 0 {
		return gap{}, 0
	}
	return sorted[n-1], sorted[(n*99+99)/100-1].length()
}
