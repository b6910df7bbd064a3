package main

import (
	"slices"
	"testing"
	"time"
)

const s = time.Second

// A checker that has caught no planted fault is no checker: each history has lease 5 of
// "a", granted at 1 s and promised until 5 s, and more.
func TestOverlapsAreFound(t *testing.T) {
	first := []record{
		{Kind: granted, Name: "a", Token: 5, At: 1 * s},
		{Kind: promised, Name: "a", Token: 5, At: 2 * s, Until: 5 * s},
	}
	next := func(at moment) []record { return []record{{Kind: granted, Name: "a", Token: 6, At: at}} }
	for _, tc := range []struct {
		name     string
		more     []record
		overlaps int
		early    int
	}{
		{"alone", nil, 0, 0},
		{"the next one after the deadline", next(5 * s), 0, 0},
		{"the next one after the release", append(next(3*s), record{Kind: letGo, Token: 5, At: 3 * s}), 0, 0},
		{"the next one after the holder was told", append(next(3*s), record{Kind: ended, Token: 5, At: 3 * s}), 0, 1},
		{"the next one of another name", []record{{Kind: granted, Name: "b", Token: 6, At: 3 * s}}, 0, 0},
		{"the next one before the deadline", next(4 * s), 1, 0},
		{"it was told at the deadline, and the next one was before", append(next(4*s), record{Kind: ended, Token: 5, At: 6 * s}), 1, 0},
		{"renewed", append(next(6*s), record{Kind: promised, Token: 5, At: 3 * s, Until: 7 * s}), 1, 0},
		{"before the release began", append(next(3*s), record{Kind: letGo, Token: 5, At: 4 * s}), 1, 0},
		{"still held when looked at after the next one's grant", append(next(3*s),
			record{Kind: promised, Token: 5, At: 4 * s, Until: 8 * s}, record{Kind: ended, Token: 5, At: 4*s + 1}), 1, 1},
		{"two inside a long one", []record{
			{Kind: promised, Token: 5, At: 2 * s, Until: 50 * s},
			{Kind: granted, Name: "a", Token: 6, At: 6 * s},
			{Kind: granted, Name: "a", Token: 7, At: 8 * s},
		}, 2, 0},
		{"the same token again", []record{{Kind: granted, Name: "b", Token: 5, At: 9 * s}}, 1, 0},
		{"the next one rides", []record{{Kind: granted, Name: "a", Token: 6, At: 4 * s, Rides: true}}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, early := findOverlaps(append(slices.Clone(first), tc.more...))
			if len(found) != tc.overlaps || early != tc.early {
				t.Errorf("%q and %d early, want %d and %d", found, early, tc.overlaps, tc.early)
			}
		})
	}
	broken := []record{
		{Kind: granted, Name: brokenPrefix + "0", Token: 5, At: 1 * s},
		{Kind: promised, Token: 5, At: 2 * s, Until: 5 * s},
		{Kind: granted, Name: brokenPrefix + "0", Token: 6, At: 3 * s},
	}
	if found, _ := findOverlaps(broken); len(found) > 0 {
		t.Errorf("a name that is broken by force: %q", found)
	}
}

func TestTallyFindsStaleAndLostWrites(t *testing.T) {
	for _, tc := range []struct {
		name        string
		entries     []entry
		balance     int64
		acked       []entry
		stale, lost int
	}{
		{"all there", []entry{{1, 1}, {1, 2}, {2, 3}}, 3, []entry{{1, 1}, {2, 3}}, 0, 0},
		{"one whose answer was lost", []entry{{1, 1}}, 1, nil, 0, 0},
		{"behind a higher token", []entry{{1, 1}, {2, 2}, {1, 3}}, 3, nil, 1, 0},
		{"written over", []entry{{1, 1}, {2, 2}, {1, 2}}, 2, nil, 1, 2},
		{"missing in the balance", []entry{{1, 1}, {1, 2}}, 1, nil, 0, 1},
		{"acknowledged and missing", []entry{{1, 1}}, 1, []entry{{1, 1}, {1, 2}}, 0, 1},
		{"acknowledged under another token", []entry{{1, 1}}, 1, []entry{{2, 1}}, 0, 1},
	} {
		if stale, lost := tally(tc.entries, tc.balance, tc.acked); stale != tc.stale || lost != tc.lost {
			t.Errorf("%s: %d stale, %d lost; want %d and %d", tc.name, stale, lost, tc.stale, tc.lost)
		}
	}
}

func TestAbleNeedsMajorityServerAndWorker(t *testing.T) {
	down := func(nodes ...string) (all []change) {
		for _, n := range nodes {
			all = append(all, change{node: n, delta: 1})
		}
		return all
	}
	apart := func(a, b []string) []change { return []change{{a: a, b: b, delta: 1}} }
	of := func(nodes ...string) []string { return nodes }
	quorum, etcd := worlds(t)[0], worlds(t)[1]
	for _, tc := range []struct {
		name    string
		w       world
		changes []change
		want    bool
	}{
		{"all is well", quorum, nil, true},
		{"one is down", quorum, down("m2"), true},
		{"two are down", quorum, down("m2", "m3"), false},
		{"down for two reasons, up for one", quorum, append(down("m1", "m1", "m2"), change{node: "m1", delta: -1}), false},
		{"one is cut off", quorum, apart(of("m1"), of("m2", "m3", "w1", "w2")), true},
		{"one is cut off from the others", quorum, apart(of("m1"), of("m2", "m3")), true},
		{"one link is cut", quorum, apart(of("m1"), of("m2")), true},
		{"all are cut off from each other", quorum, append(apart(of("m1"), of("m2", "m3")), apart(of("m2"), of("m3"))...), false},
		{"workers reach a part, which may not be the active one", quorum, apart(of("w1", "w2"), of("m1")), false},
		{"one worker reaches all", quorum, apart(of("w1"), of("m1", "m2", "m3")), true},
		{"workers are stopped", quorum, down("w1", "w2"), false},
		{"two servers are down", etcd, down("s1", "s2"), true},
		{"all servers are down", etcd, down("s1", "s2", "s3"), false},
		{"no server reaches a majority", etcd, apart(of("s1", "s2", "s3"), of("e1", "e2")), false},
		{"a server and a member are down", etcd, down("s1", "e1"), true},
		{"two members are down", etcd, down("e1", "e3"), false},
	} {
		st := newState()
		for _, c := range tc.changes {
			st.apply(c)
		}
		if got := tc.w.able(st); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestSamplesFindTimesWithoutGrants(t *testing.T) {
	w := worlds(t)[0]
	one := []change{
		{at: 10 * s, node: "m1", delta: 1, what: "down"},
		{at: 20 * s, node: "m1", delta: -1, what: "up"},
	}
	two := []change{
		{at: 10 * s, node: "m1", delta: 1, what: "one"},
		{at: 12 * s, node: "m2", delta: 1, what: "two"},
		{at: 20 * s, node: "m2", delta: -1, what: "back"},
	}
	every := func(from, until moment) (all []moment) {
		for at := from; at <= until; at += s / 10 {
			all = append(all, at)
		}
		return all
	}
	for _, tc := range []struct {
		name    string
		changes []change
		grants  []moment
		want    []time.Duration
	}{
		{"nothing is missing", one, every(0, 30*s), []time.Duration{s / 10, s / 10, s / 10}},
		{"a pause after the kill", one, append(every(0, 10*s), every(13*s, 30*s)...), []time.Duration{s / 10, 3 * s, s / 10}},
		{"a pause that begins before the kill and outlasts it", one, append(every(0, 9*s), every(13*s, 30*s)...), []time.Duration{4 * s, s / 10, s / 10}},
		{"none until the end", one, every(0, 21*s), []time.Duration{s / 10, s / 10, 9 * s}},
		{"none at all", one, nil, []time.Duration{30 * s, 0, 0}},
		{"without a majority nothing counts", two, append(every(0, 12*s), every(20*s, 30*s)...), []time.Duration{s / 10, s / 10, 0, s / 10}},
		{"it counts until the majority is gone, and when it is back", two, append(every(0, 10*s), every(25*s, 30*s)...), []time.Duration{s / 10, 2 * s, 0, 5 * s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []time.Duration
			for _, g := range w.samples(tc.changes, tc.grants, 0, 30*s) {
				got = append(got, g.length())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestWorst(t *testing.T) {
	var all []gap
	for i := range 200 {
		all = append(all, gap{until: moment(200-i) * s})
	}
	if longest, p99 := worst(all); longest.length() != 200*s || p99 != 198*s {
		t.Errorf("%v %v", longest.length(), p99)
	}
	if longest, p99 := worst(nil); longest.length() != 0 || p99 != 0 {
		t.Errorf("%v %v of nothing", longest, p99)
	}
}
