package pawl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
)

func TestCoreModes(t *testing.T) {
	for name, text := range map[string]string{
		"every option is asked again on the next stream and under the next number": opened + `
			acquire x,y shared value=v delay=2s
			> send finished 1 1:acquire(x,y shared value=v delay=2s)
			acquire z slots=3
			> send finished 1 2:acquire(z slots=3)
			refused 2 exhausted
			@20 down
			> hang up
			@30
			> dial b session "s1" generation 2 held [] wanted [1 2]
			@40 welcome 3s
			> send finished 1 1:acquire(x,y shared value=v delay=2s)
			@120
			> send finished 1 3:acquire(z slots=3)
			granted 1 5 fence=4
			> call 1: lease 5
			granted 3 6 slot=2
			> call 2: lease 6`,

		"a grant of another mode is nonsense: a slot": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5 slot=1
			> hang up
			@20
			> dial b session "s1" generation 2 held [] wanted [1]`,

		"a grant of another mode is nonsense: no slot": opened + `
			acquire x slots=2
			> send finished 1 1:acquire(x slots=2)
			granted 1 5
			> hang up
			@20
			> dial b session "s1" generation 2 held [] wanted [1]`,

		"a slot that there is not": opened + `
			acquire x slots=2
			> send finished 1 1:acquire(x slots=2)
			granted 1 5 slot=3
			> hang up
			@20
			> dial b session "s1" generation 2 held [] wanted [1]`,

		"a fence above the token": opened + `
			acquire x shared
			> send finished 1 1:acquire(x shared)
			granted 1 5 fence=6
			> hang up
			@20
			> dial b session "s1" generation 2 held [] wanted [1]`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { runScript(t, text) })
	}
}

func TestCoreWatches(t *testing.T) {
	for name, text := range map[string]string{
		"two observers of one name are one observation, the last one ends it": opened + `
			observe x
			> send observe [x]
			observed x 0
			> observer 1: 0 ""
			observed x 5 v
			> observer 1: 5 "v"
			observe x
			> observer 2: 5 "v"
			unobserve 1
			observed x 6 w
			> observer 2: 6 "w"
			unobserve 2
			> send finished 1 unobserve [x]
			# What is under way is not heard, and nobody is told.
			observed x 7 z`,

		"one that may not be observed ends, and the others go on": opened + `
			observe x
			> send observe [x]
			observe y
			> send observe [y]
			unseen x denied
			> observer 1: denied: because
			observed y 6 w
			> observer 2: 6 "w"`,

		"one that joins before the answer waits for it": opened + `
			observe x
			> send observe [x]
			observe x
			observed x 5 v
			> observer 1: 5 "v"
			> observer 2: 5 "v"`,

		"asked again on every stream and in every session": opened + `
			observe x
			> send observe [x]
			observed x 5 v
			> observer 1: 5 "v"
			down
			> hang up
			# Who comes while there is no connection waits for fresh news.
			observe x
			observe y
			@20
			> dial b session "s1" generation 2 seen 5
			@30 welcome 3s
			> send observe [x y]
			observed x 5 v
			> observer 1: 5 "v"
			> observer 2: 5 "v"
			closed gone
			> hang up
			> dial b session "" generation 1 seen 5
			> event lost leases 0
			@40 welcome 3s
			> send observe [x y]
			> event safe leases 0
			observed x 6 w
			> observer 1: 6 "w"
			> observer 2: 6 "w"`,

		"who leaves while there is no connection is not asked for": opened + `
			observe x
			> send observe [x]
			down
			> hang up
			unobserve 1
			@20
			> dial b session "s1" generation 2
			@30 welcome 3s
			observed x 5 v`,

		"what is given up goes before what is taken up": opened + `
			observe x
			> send observe [x]
			unobserve 1
			> send finished 1 unobserve [x]
			observe x
			> send observe [x]
			observed x 0
			> observer 2: 0 ""`,

		"an observed token was seen, unless it is none": opened + `
			observe x
			> send observe [x]
			observed x 18446744073709551615
			> observer 1: 18446744073709551615 ""
			observed x 9
			> observer 1: 9 ""
			down
			> hang up
			@20
			> dial b session "s1" generation 2 seen 9`,

		"the server will not have us": opened + `
			observe x
			> send observe [x]
			closed denied
			> hang up
			> event jeopardy leases 0
			> observer 1: denied
			@20
			> dial b session "s1" generation 2
			@30 welcome 3s
			> event safe leases 0`,

		"a server that observes less: who was answered is within its limit": opened + `
			observe x
			> send observe [x]
			observed x 5 v
			> observer 1: 5 "v"
			observe y
			> send observe [y]
			closed exhausted
			> hang up
			> observer 2: limit reached
			@20
			> dial b session "s1" generation 2 seen 5
			@30 welcome 3s
			> send observe [x]`,

		"closed by us": opened + `
			observe x
			> send observe [x]
			close
			> send finished 1 unobserve [x] close
			> observer 1: client closed
			observe x
			> observer 2: client closed
			closed
			> hang up
			unobserve 1`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { runScript(t, text) })
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
