package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// split takes a message apart as far as that goes.
func split(m *linkpb.ClientMessage) (parts []*linkpb.ClientMessage) {
	for m != nil {
		var first *linkpb.ClientMessage
		first, m = Split(m)
		parts = append(parts, first)
	}
	return parts
}

func requestsOf(n int, a *linkpb.Acquire) (all []*linkpb.Request) {
	for i := range n {
		all = append(all, &linkpb.Request{Number: uint64(i + 1), What: &linkpb.Request_Acquire{Acquire: a}})
	}
	return all
}

// Requests with many names and large values are spread over messages that a
// server takes, in their order.
func TestSplitByBytes(t *testing.T) {
	const n, value = 100, 64 << 10
	next := uint64(1)
	parts := split(&linkpb.ClientMessage{Renewal: 3, Requests: requestsOf(n, &linkpb.Acquire{Names: []string{"x"}, Value: make([]byte, value)})})
	for i, m := range parts {
		bytes := 0
		for _, r := range m.Requests {
			bytes += requestWeight(r)
			if r.Number != next {
				t.Errorf("part %d has request %d where %d was expected", i, r.Number, next)
			}
			next++
		}
		if bytes > splitBytesMax+value+1024 || len(m.Requests) == 0 {
			t.Errorf("part %d has %d bytes", i, bytes)
		}
		if (m.Renewal == 3) != (i == 0) {
			t.Errorf("part %d has renewal %d", i, m.Renewal)
		}
	}
	if next != n+1 || len(parts) != n/2 {
		t.Errorf("%d requests in %d parts", next-1, len(parts))
	}
}

// So are names that are observed, and those that no longer are.
func TestSplitObservedNames(t *testing.T) {
	all := make([]string, WatchesMax)
	for i := range all {
		all[i] = fmt.Sprintf("%0512d", i)
	}
	var observed, given []string
	for _, m := range split(&linkpb.ClientMessage{Observe: all, Unobserve: all[:9], FinishedBelow: 1, Close: true}) {
		bytes := 0
		for _, name := range append(slices.Clone(m.Observe), m.Unobserve...) {
			bytes += nameWeight(name)
		}
		if bytes > splitBytesMax+nameWeight(all[0]) || len(m.Unobserve) > 0 && len(observed)+len(m.Observe) < len(all) {
			t.Errorf("a message of %d bytes observes %d and no longer %d", bytes, len(m.Observe), len(m.Unobserve))
		}
		observed, given = append(observed, m.Observe...), append(given, m.Unobserve...)
		if m.Close != (len(given) == 9) {
			t.Error("the session is closed before all is said, or not at all")
		}
	}
	if !slices.Equal(observed, all) || !slices.Equal(given, all[:9]) {
		t.Errorf("%d names are observed and %d no longer", len(observed), len(given))
	}
}

// A greeting names all that it named, in its order, in messages that a server takes.
func TestGreetingInMessages(t *testing.T) {
	for _, n := range [][2]int{{0, 0}, {1, 1}, {bounds.NamedMax, 0}, {bounds.NamedMax - 1, 2}, {bounds.NamedMax + 1, 0}, {3 * bounds.NamedMax, bounds.NamedMax / 2}, {0, 2 * bounds.NamedMax}} {
		h := &linkpb.Hello{Version: 7}
		for i := range n[0] {
			h.Held = append(h.Held, uint64(i))
		}
		for i := range n[1] {
			h.Wanted = append(h.Wanted, uint64(i))
		}
		wantHeld, wantWanted := slices.Clone(h.Held), slices.Clone(h.Wanted)
		var held, wanted []uint64
		further := 0
		for i, m := range Greeting(h) {
			part := len(m.Hello.Held) + len(m.Hello.Wanted)
			held, wanted = append(held, m.Hello.Held...), append(wanted, m.Hello.Wanted...)
			if i == 0 {
				further = int(m.Hello.Further)
			} else if further -= part; part == 0 {
				t.Errorf("%v: message %d is empty", n, i)
			}
			if part > bounds.NamedMax || (m.Hello.Version == 7) != (i == 0) {
				t.Errorf("%v: message %d names %d", n, i, part)
			}
		}
		if further != 0 || !slices.Equal(held, wantHeld) || !slices.Equal(wanted, wantWanted) {
			t.Errorf("%v: %d and %d are named, %d more are announced", n, len(held), len(wanted), further)
		}
	}
}

// No message has more requests than a server takes, and the last one alone closes the
// session.
func TestSplitByCount(t *testing.T) {
	parts := split(&linkpb.ClientMessage{FinishedBelow: 1, Requests: requestsOf(OutstandingMax, &linkpb.Acquire{Names: []string{"x"}}), Close: true})
	for i, m := range parts {
		if len(m.Requests) > splitMax || m.Close != (i == len(parts)-1) || m.FinishedBelow != 1 {
			t.Fatalf("part %d of %d has %d requests, close %v", i, len(parts), len(m.Requests), m.Close)
		}
	}
	if len(parts) != OutstandingMax/splitMax {
		t.Errorf("%d parts", len(parts))
	}
}

// What is to be observed and what no longer goes out in the order in which it
// was decided; all else is gathered.
func TestGatherKeepsTheOrderOfWatches(t *testing.T) {
	var pending []*linkpb.ClientMessage
	for _, m := range []*linkpb.ClientMessage{
		{Renewal: 1, TtlNano: 7},
		{Observe: []string{"x"}},
		{Renewal: 2, FinishedBelow: 4},
		{Unobserve: []string{"x"}},
		{Observe: []string{"x"}, TtlNano: 9},
		{Close: true},
	} {
		pending = Gather(pending, m)
	}
	var got []string
	for _, m := range pending {
		got = append(got, fmt.Sprint(m.Renewal, m.FinishedBelow, m.TtlNano, m.Observe, m.Unobserve, m.Close))
	}
	want := []string{"2 4 7 [x] [] false", "0 0 0 [] [x] false", "0 0 9 [x] [] true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Of what two messages ask for the later one counts, and what it does not ask for stays.
func TestGatherKeepsLatestRequest(t *testing.T) {
	got := Gather([]*linkpb.ClientMessage{{Renewal: 2, TtlNano: 6, FinishedBelow: 9}}, &linkpb.ClientMessage{Renewal: 3, TtlNano: 3})
	got = Gather(got, &linkpb.ClientMessage{Requests: requestsOf(1, nil), FinishedBelow: 4})
	if m := got[0]; len(got) != 1 || m.Renewal != 3 || m.TtlNano != 3 || m.FinishedBelow != 9 || len(m.Requests) != 1 {
		t.Errorf("gathered %v", got)
	}
}
