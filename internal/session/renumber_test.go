package session

import (
	"fmt"
	"strings"
	"testing"
)

// A waiter that waits while many others come and go gets a new number, and shows its
// ticket.
func TestWaiterKeepsItsTicketWhenRenumbered(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "waiting 1")
	s.m.next = SpreadMin
	s.out = nil
	s.takeTurn()
	if len(s.out) != 0 {
		t.Fatalf("too early: %q", s.out)
	}
	s.m.next++
	s.takeTurn()
	want := fmt.Sprintf("send finished 1 %d:acquire(x)[ticket1][replaces 1]", SpreadMin+1)
	if len(s.out) != 1 || s.out[0] != want {
		t.Fatalf("got %q, want %q", s.out, want)
	}
	// The old number is finished when the new one is answered, and not before.
	if low := s.m.lowest(); low != 1 {
		t.Fatalf("finished below %d while the server may not know the new number", low)
	}
	s.takeTurn(fmt.Sprint("waiting ", SpreadMin+1))
	if low := s.m.lowest(); low != SpreadMin+1 {
		t.Fatalf("finished below %d when the new number is answered", low)
	}
	if r := s.calls[0].request; r.Number() != SpreadMin+1 || string(r.Ticket()) != fmt.Sprint("ticket", SpreadMin+1) {
		t.Errorf("it is known by number %d and ticket %q", r.Number(), r.Ticket())
	}
}

// Many that wait are moved seldom: each has cost several requests by then. What
// cannot be moved does not have them looked through again and again.
func TestLongWaitersAreRenumberedRarely(t *testing.T) {
	s := open(t, ofTwo())
	const waiting, asked = 1000, 20_000
	for i := range waiting {
		s.input([]string{"acquire", fmt.Sprint("x", i)})
		s.input([]string{"waiting", fmt.Sprint(i + 1)})
	}
	s.takeTurn()
	moved := 0
	for range asked {
		s.out = nil
		s.m.number()
		s.takeTurn()
		for _, line := range s.out {
			for _, word := range strings.Fields(line) {
				if n, _, acquires := strings.Cut(word, ":acquire("); acquires {
					moved++
					s.input([]string{"waiting", n})
				}
			}
		}
		if spread := s.m.next - s.m.lowest(); spread > 5*waiting {
			t.Fatalf("unfinished requests lie %d apart", spread)
		}
	}
	if moved == 0 || moved > asked {
		t.Errorf("%d moves while %d others were asked", moved, asked)
	}
}
