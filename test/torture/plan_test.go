package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func worlds(t *testing.T) []world {
	t.Helper()
	var all []world
	for _, store := range []string{storeQuorum, storeEtcd} {
		w, err := worldOf(store)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func TestPlanIsTheSameForASeed(t *testing.T) {
	for _, w := range worlds(t) {
		a, b := plan(w, 7, 5*time.Minute), plan(w, 7, 5*time.Minute)
		if !reflect.DeepEqual(a, b) {
			t.Error("two plans of one seed differ")
		}
		if reflect.DeepEqual(a, plan(w, 8, 5*time.Minute)) {
			t.Error("two seeds have one plan")
		}
	}
}

// Whatever the seed: every kind comes in two minutes, all is over before the end, sides
// are of the world, and no two faults have one process or disk at once.
func TestPlanKeepsItsRules(t *testing.T) {
	const run = 2 * time.Minute
	for _, w := range worlds(t) {
		for seed := range uint64(300) {
			faults := plan(w, seed, run)
			seen := map[kind]int{}
			for i, f := range faults {
				seen[f.kind]++
				if f.at < calmFirst || f.dur <= 0 || f.at+f.dur > run-calmLast {
					t.Fatalf("seed %d: %v at %v", seed, f, f.at)
				}
				for _, n := range append(slices.Clone(f.a), f.b...) {
					if n != active && !slices.Contains(w.nodes(), n) {
						t.Fatalf("seed %d: %v is of another world", seed, f)
					}
				}
				process := f.kind == stop || f.kind == kill || f.kind == full
				if len(f.a) == 0 || process != (len(f.b) == 0) {
					t.Fatalf("seed %d: %v lacks a side", seed, f)
				}
				for _, g := range faults[:i] {
					if g.at+g.dur > f.at && clash(f, g) {
						t.Fatalf("seed %d: %v at %v and %v at %v", seed, g, g.at, f, f.at)
					}
				}
			}
			for _, k := range kinds {
				// One of a pair that clashes is left out.
				if seen[k] == 0 && (k != stop && k != kill && k != full) {
					t.Errorf("seed %d: no %s in %d faults", seed, k, len(faults))
				}
			}
		}
	}
}

func TestTurnsBeginAndEndEveryFault(t *testing.T) {
	faults := []fault{
		{kind: flap, at: 2 * time.Second, dur: 2 * time.Second, period: time.Second, a: []string{"m1"}, b: []string{"m2"}},
		{kind: kill, at: time.Second, dur: 5 * time.Second, a: []string{"m1"}},
	}
	var told []string
	for _, x := range turns(faults) {
		told = append(told, strings.Join([]string{x.at.String(), string(faults[x.fault].kind), map[bool]string{true: "on", false: "off"}[x.on]}, " "))
	}
	want := []string{"1s kill on", "2s flap on", "2.5s flap off", "3s flap on", "3.5s flap off", "4s flap off", "6s kill off"}
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

func TestFaultNamesTheActiveServer(t *testing.T) {
	w := worlds(t)[0]
	f := fault{kind: cut, a: []string{active}, b: w.nodes()}
	got, ok := f.resolve("m2")
	if !ok || !slices.Equal(got.a, []string{"m2"}) || !slices.Equal(got.b, []string{"m1", "m3", "w1", "w2"}) {
		t.Errorf("%v %v", got, ok)
	}
	if _, ok := f.resolve(""); ok {
		t.Error("it needs an active server")
	}
	if got, ok := (fault{kind: stop, a: []string{"w1"}}).resolve(""); !ok || got.a[0] != "w1" {
		t.Errorf("%v %v", got, ok)
	}
}

func TestRulesetsDropWherePacketsArrive(t *testing.T) {
	w := worlds(t)[0]
	m1, m2 := w.address("m1"), w.address("m2")
	for _, tc := range []struct {
		on   []fault
		node string
		want string
	}{
		{nil, "m1", "flush table inet torture\n"},
		{[]fault{{kind: cut, a: []string{"m1"}, b: []string{"m2"}}}, "m1", "flush table inet torture\nadd rule inet torture arrive ip saddr " + m2 + " drop\n"},
		{[]fault{{kind: cut, a: []string{"m1", "m2"}, b: []string{"m1"}}}, "m1", "flush table inet torture\nadd rule inet torture arrive ip saddr " + m2 + " drop\n"},
		{[]fault{{kind: oneWay, a: []string{"m1"}, b: []string{"m2"}}}, "m1", "flush table inet torture\n"},
		{[]fault{{kind: oneWay, a: []string{"m1"}, b: []string{"m2"}}}, "m2", "flush table inet torture\nadd rule inet torture arrive ip saddr " + m1 + " drop\n"},
		{[]fault{{kind: loss, a: []string{"m1"}, b: []string{"m2"}, percent: 9}}, "m2", "flush table inet torture\nadd rule inet torture arrive ip saddr " + m1 + " numgen random mod 100 < 9 drop\n"},
		{[]fault{{kind: delay, a: []string{"m1"}, b: []string{"m2"}}}, "m2", "flush table inet torture\n"},
	} {
		if got := w.rulesets(tc.on)[tc.node]; got != tc.want {
			t.Errorf("%v: %q, want %q", tc.on, got, tc.want)
		}
	}
	if got := w.rulesets([]fault{{kind: delay, a: []string{"m1"}, b: []string{"m2"}}})["m1"]; !strings.Contains(got, "ip daddr "+m2) || !strings.Contains(got, "redirect to :15001") {
		t.Errorf("no relay: %q", got)
	}
}
