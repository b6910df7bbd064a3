package pawl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// The first attempt is dialled before the script begins.
const opened = `
> dial a session "" generation 1
@10 welcome 3s
> event safe leases 0
`

func TestCore(t *testing.T)     { runScripts(t, "core.txt") }
func TestCoreTTL(t *testing.T)  { runScripts(t, "ttl.txt") }
func TestCoreBeat(t *testing.T) { runScripts(t, "beat.txt") }

func newScript(t *testing.T) *script {
	s := &script{t: t, lease: map[guard.Token]*Lease{}}
	s.c = newCore([]string{"a", "b"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
	s.c.tick()
	s.carryOut()
	s.input([]string{"welcome", "3s"})
	s.c.tick()
	s.carryOut()
	s.out = nil
	return s
}

// A waiter that waits while many others come and go gets a new number, and
// shows its ticket.
func TestALongWaiterIsRenumbered(t *testing.T) {
	s := newScript(t)
	s.input([]string{"acquire", "x"})
	s.input([]string{"waiting", "1"})
	s.c.tick()
	s.carryOut()
	s.c.next = spreadMin
	s.out = nil
	s.c.tick()
	s.carryOut()
	if len(s.out) != 0 {
		t.Fatalf("too early: %q", s.out)
	}
	s.c.next++
	s.c.tick()
	s.carryOut()
	want := fmt.Sprintf("send finished 1 %d:acquire(x)[ticket1]", spreadMin+1)
	if len(s.out) != 1 || s.out[0] != want {
		t.Fatalf("got %q, want %q", s.out, want)
	}
	// The old number is finished when the new one is answered, and not before.
	if low := s.c.lowest(); low != 1 {
		t.Fatalf("finished below %d while the server may not know the new number", low)
	}
	s.input([]string{"waiting", fmt.Sprint(spreadMin + 1)})
	if low := s.c.lowest(); low != spreadMin+1 {
		t.Fatalf("finished below %d when the new number is answered", low)
	}
}

// Many that wait are moved seldom: each has cost several requests by then. What
// cannot be moved does not have them looked through again and again.
func TestManyLongWaitersAreRenumberedSeldom(t *testing.T) {
	s := newScript(t)
	const waiting, asked = 1000, 20_000
	for i := range waiting {
		s.input([]string{"acquire", fmt.Sprint("x", i)})
		s.input([]string{"waiting", fmt.Sprint(i + 1)})
	}
	s.c.tick()
	s.carryOut()
	moved := 0
	for range asked {
		s.out = nil
		s.c.number()
		s.c.tick()
		s.carryOut()
		for _, line := range s.out {
			for _, word := range strings.Fields(line) {
				if n, _, acquires := strings.Cut(word, ":acquire("); acquires {
					moved++
					s.input([]string{"waiting", n})
				}
			}
		}
		if spread := s.c.next - s.c.lowest(); spread > 5*waiting {
			t.Fatalf("unfinished requests lie %d apart", spread)
		}
	}
	if moved == 0 || moved > asked {
		t.Errorf("%d moves while %d others were asked", moved, asked)
	}
}

func TestTooManyAcquires(t *testing.T) {
	s := newScript(t)
	for range outstandingMax {
		c := newCall(callAcquire)
		c.wants.names, c.ctx = []string{"x"}, t.Context()
		s.c.begin(c)
	}
	c := newCall(callAcquire)
	s.c.begin(c)
	if !errors.Is(c.err, ErrExhausted) {
		t.Fatalf("the one too many: %v", c.err)
	}
	m := s.c.message()
	rest := m
	for n := 0; rest != nil; n++ {
		m, rest = split(rest)
		if len(m.Requests) > requestsMax || m.Close {
			t.Fatalf("part %d has %d requests", n, len(m.Requests))
		}
	}
}
