package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Who leaves makes room for who comes in the same turn, and nobody else does.
func TestEndedWatchMakesRoomInSameTurn(t *testing.T) {
	s := open(t, ofTwo())
	for i := range WatchesMax {
		s.input([]string{"observe", fmt.Sprint("name ", i)})
	}
	s.input([]string{"unobserve", "1"})
	s.input([]string{"unobserve", "1"})
	s.input([]string{"observe", "a"})
	s.input([]string{"observe", "b"})
	s.input([]string{"observe", "name 0"})
	s.input([]string{"observe", "a"})
	s.carryOut()
	refused := func(o *watcher) bool { return o.ended && o.why.Kind == TooManyWatches && o.why.Names == WatchesMax }
	last := s.watch[WatchesMax:]
	if refused(last[0]) || !refused(last[1]) || !refused(last[2]) || refused(last[3]) {
		t.Errorf("one has left, and %d observe", s.m.watches.observed)
	}
	s.m.Tick()
	if n := len(s.m.watches.of); n != WatchesMax {
		t.Errorf("%d names are observed", n)
	}
}

// Leaving and coming in one turn make one observation, in whichever order.
func TestUnwatchAndWatchInOneTurnAreOne(t *testing.T) {
	s := open(t, ofTwo())
	turn := func(lines ...string) {
		t.Helper()
		s.out = nil
		s.takeTurn(lines...)
	}
	turn("observe x", "unobserve 1")
	if len(s.out) != 0 || len(s.m.watches.of) != 0 {
		t.Errorf("nobody is left: %q", s.out)
	}
	turn("observe x")
	turn("unobserve 2", "observe x", "unobserve 3", "observe x")
	if len(s.out) != 0 {
		t.Errorf("somebody is left: %q", s.out)
	}
	turn("unobserve 4", "observe y")
	if want := []string{"send finished 1 unobserve [x]", "send observe [y]"}; !slices.Equal(s.out, want) {
		t.Errorf("got %q", s.out)
	}
	turn("down")
	for range 10 {
		z := &watcher{name: "z"}
		s.m.Observe(z, z.name)
		s.m.Unobserve(z, z.name)
		s.m.Observe(z, z.name)
		turn()
		s.m.Unobserve(z, z.name)
		turn()
	}
	if n := len(s.m.watches.todo); n != 1 || len(s.m.watches.of) != 1 {
		t.Errorf("%d wait to be asked for, of %d", n, len(s.m.watches.of))
	}
}

// So many observations are asked for at once as the server can answer; the next
// one with every answer, or when one that is not answered is given up.
func TestWatchesAreRequestedInPortions(t *testing.T) {
	s := open(t, ofTwo())
	for i := range WatchesMax {
		s.input([]string{"observe", fmt.Sprintf("n%04d", i)})
	}
	s.input([]string{"observe", "one too many"})
	sent := func() (names []string) {
		s.m.Tick()
		for x := s.m.Message(); x != nil; x = s.m.Message() {
			names = append(names, x.Observe...)
		}
		s.carryOut()
		return names
	}
	if n := len(sent()); n != watchesAsked {
		t.Errorf("%d were asked for", n)
	}
	if !s.watch[WatchesMax].ended {
		t.Error("one too many was observed")
	}
	s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: "n0003"}, {Name: "n0003", Token: 7}}})
	if got := sent(); !slices.Equal(got, []string{"n0032"}) {
		t.Errorf("after an answer: %v", got)
	}
	s.input([]string{"unobserve", "5"})
	if got := sent(); !slices.Equal(got, []string{"n0033"}) {
		t.Errorf("after one was given up: %v", got)
	}
	for next := s.m.watches.open; next > 0; next = s.m.watches.open {
		for _, name := range s.m.watches.names() {
			if w := s.m.watches.of[name]; w.asked && !w.live {
				s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: name}}})
			}
		}
		sent()
	}
	if n := len(s.m.watches.todo); n != 0 {
		t.Errorf("%d were never asked for", n)
	}
}

// Names that the server does not let us observe take no room from others: neither from
// what may be observed, nor from what may be asked for at once.
func TestDeniedWatchesTakeNoRoom(t *testing.T) {
	s := open(t, ofTwo())
	for i := range WatchesMax + 1 {
		name := fmt.Sprint("name ", i)
		o := &watcher{index: i + 1, name: name}
		s.watch = append(s.watch, o)
		s.m.Observe(o, name)
		s.out = nil
		s.takeTurn()
		if want := []string{"send observe [" + name + "]"}; !slices.Equal(s.out, want) {
			t.Fatalf("after %d denials: %q", i, s.out)
		}
		s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: name, Reason: linkpb.Reason_REASON_DENIED}}})
		s.takeTurn()
	}
	if n := s.m.watches.observed; n != 0 {
		t.Errorf("all are denied, and %d are counted", n)
	}
}

// On a new stream nothing is asked for yet: all is, again.
func TestUnansweredWatchesAreRepeatedOnNewStream(t *testing.T) {
	s := open(t, ofTwo())
	for i := range watchesAsked {
		s.input([]string{"observe", fmt.Sprint("n", i)})
	}
	s.takeTurn()
	s.takeTurn("@10 down")
	s.takeTurn("@20")
	s.takeTurn("@30 welcome 3s")
	asked := 0
	for _, w := range s.m.watches.of {
		if w.asked {
			asked++
		}
	}
	if asked != watchesAsked {
		t.Errorf("%d of %d are asked for on the next stream", asked, watchesAsked)
	}
}

// Who leaves in the turn in which the server ends the observation leaves once.
func TestWatchEndedByBothSidesIsCountedOnce(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("observe x")
	s.takeTurn("unobserve 1", "closed exhausted")
	if n := s.m.watches.observed; n != 0 {
		t.Errorf("nobody observes, and %d are counted", n)
	}
}
