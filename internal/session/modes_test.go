package pawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
)

func TestCoreModes(t *testing.T) { runScripts(t, "modes.txt") }

func TestCoreWatches(t *testing.T) { runScripts(t, "watches.txt") }

// Who leaves makes room for who comes in the same turn, and nobody else does.
func TestWhoLeavesMakesRoom(t *testing.T) {
	s := newScript(t)
	refused := func(o *observer) bool {
		_, err := o.take()
		return errors.Is(err, ErrExhausted)
	}
	for i := range watchesMax {
		s.input([]string{"observe", fmt.Sprint("name ", i)})
	}
	s.input([]string{"unobserve", "1"})
	s.input([]string{"unobserve", "1"})
	s.input([]string{"observe", "a"})
	s.input([]string{"observe", "b"})
	s.input([]string{"observe", "name 0"})
	s.input([]string{"observe", "a"})
	last := s.watch[watchesMax:]
	if refused(last[0]) || !refused(last[1]) || !refused(last[2]) || refused(last[3]) {
		t.Errorf("one has left, and %d observe", s.c.watches.observed)
	}
	s.c.tick()
	if n := len(s.c.watches.of); n != watchesMax {
		t.Errorf("%d names are observed", n)
	}
}

// Leaving and coming in one turn make one observation, in whichever order.
func TestWatchesOfOneTurn(t *testing.T) {
	s := newScript(t)
	turn := func(lines ...string) {
		t.Helper()
		s.out = nil
		for _, line := range lines {
			s.input(strings.Fields(line))
		}
		s.c.tick()
		s.carryOut()
	}
	turn("observe x", "unobserve 1")
	if len(s.out) != 0 || len(s.c.watches.of) != 0 {
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
		z := newObserver("z")
		s.c.observe(z)
		s.c.unobserve(z)
		s.c.observe(z)
		turn()
		s.c.unobserve(z)
		turn()
	}
	if n := len(s.c.watches.todo); n != 1 || len(s.c.watches.of) != 1 {
		t.Errorf("%d wait to be asked for, of %d", n, len(s.c.watches.of))
	}
}

// So many observations are asked for at once as the server can answer; the next
// one with every answer, or when one that is not answered is given up.
func TestManyWatches(t *testing.T) {
	s := newScript(t)
	for i := range watchesMax {
		s.input([]string{"observe", fmt.Sprintf("n%04d", i)})
	}
	s.input([]string{"observe", "one too many"})
	sent := func() (names []string) {
		s.c.tick()
		for m := s.c.message(); m != nil; m = s.c.message() {
			names = append(names, m.Observe...)
		}
		return names
	}
	if _, err := s.watch[watchesMax].take(); err == nil {
		t.Error("one too many was observed")
	}
	if n := len(sent()); n != watchesAsked {
		t.Errorf("%d were asked for", n)
	}
	s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: "n0003"}, {Name: "n0003", Token: 7}}})
	if got := sent(); !slices.Equal(got, []string{"n0032"}) {
		t.Errorf("after an answer: %v", got)
	}
	s.c.unobserve(s.watch[4])
	if got := sent(); !slices.Equal(got, []string{"n0033"}) {
		t.Errorf("after one was given up: %v", got)
	}
	for next := s.c.watches.open; next > 0; next = s.c.watches.open {
		for _, name := range s.c.watches.names() {
			if w := s.c.watches.of[name]; w.asked && !w.live {
				s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: name}}})
			}
		}
		sent()
	}
	if n := len(s.c.watches.todo); n != 0 {
		t.Errorf("%d were never asked for", n)
	}
}

// Requests with many names and large values are spread over messages that a
// server takes.
func TestSplitByBytes(t *testing.T) {
	s := newScript(t)
	const n = 100
	for range n {
		c := newCall(callAcquire)
		c.wants.names, c.wants.value, c.ctx = []string{"x"}, make([]byte, valueMax), t.Context()
		s.c.begin(c)
	}
	rest, parts, total := s.c.message(), 0, 0
	for rest != nil {
		var m *linkpb.ClientMessage
		m, rest = split(rest)
		bytes := 0
		for _, r := range m.Requests {
			bytes += weight(r)
		}
		if bytes > bytesMax+valueMax+nameMax || len(m.Requests) == 0 {
			t.Errorf("part %d has %d bytes", parts, bytes)
		}
		parts++
		total += len(m.Requests)
	}
	if total != n || parts != 7 {
		t.Errorf("%d requests in %d parts", total, parts)
	}
}

// What is to be observed and what no longer goes out in the order in which it
// was decided; all else is gathered.
func TestPendingMessages(t *testing.T) {
	s := &stream{ready: make(chan struct{}, 1)}
	for _, m := range []*linkpb.ClientMessage{
		{Renewal: 1},
		{Observe: []string{"x"}},
		{Renewal: 2},
		{Unobserve: []string{"x"}},
		{Observe: []string{"x"}},
		{Close: true},
	} {
		s.put(m)
	}
	var got []string
	for _, m := range s.take() {
		got = append(got, fmt.Sprint(m.Renewal, m.Observe, m.Unobserve, m.Close))
	}
	want := []string{"2 [x] [] false", "0 [] [x] false", "0 [x] [] true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
