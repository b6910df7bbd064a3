package cell_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// told is what a stream is told.
type told chan locktable.Answer

func (x told) Receive(_ uint64, a locktable.Answer) { x <- a }

// granted is the next lease that a stream is told of.
func (x told) granted() locktable.Granted {
	for {
		if g, ok := (<-x).(locktable.Granted); ok {
			return g
		}
	}
}

// waiting is the next place that a stream is told of.
func (x told) waiting() locktable.Place {
	for {
		if w, ok := (<-x).(locktable.Waiting); ok {
			return w.Place
		}
	}
}

// holders are the tokens under which a name is held.
func (s *server) holders(t *testing.T, name string) (tokens []guard.Token, waiters int) {
	t.Helper()
	p, err := s.List(t.Context(), locktable.List{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Locks {
		waiters += len(l.Waiters)
		for _, h := range l.Holders {
			tokens = append(tokens, h.Token)
		}
	}
	return tokens, waiters
}

// I5: a greeting sent before a take-over releases nothing that was granted since.
//
//  1. A client greets the standby and gives that attempt up; its greeting is delayed.
//  2. It attaches to the active server again, is granted x, and renews.
//  3. The standby takes over, and the greeting arrives. It does not name x.
func TestGreetingOvertakenBeforeATakeOver(t *testing.T) {
	for name, next := range map[string]uint64{"that says its next number": 1, "that does not": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memstore.NewDisk()
				a := start(t, disk, "a", false)
				a.up(t)
				b := start(t, disk, "b", false)
				defer b.stop()
				const ttl = 15 * time.Second
				first := make(told, 16)
				s := a.Attach(t.Context(), cell.Hello{Generation: 1, TTL: ttl, Next: 1}, first)
				<-first
				s.Detach()
				late := cell.Hello{Session: s.Session(), Generation: 2, TTL: ttl, Next: next}

				second := make(told, 16)
				again := a.Attach(t.Context(), cell.Hello{Session: s.Session(), Generation: 3, TTL: ttl, Next: 1}, second)
				<-second
				again.Submit(cell.Message{Renewal: 2, Finished: 1, Acquires: []locktable.Acquire{{Number: 1, Names: []string{"x"}}}})
				token := second.granted().Token

				a.stop()
				b.up(t)
				third := make(told, 16)
				b.Attach(t.Context(), late, third)
				<-third
				if held, _ := b.holders(t, "x"); !slices.Equal(held, []guard.Token{token}) {
					t.Errorf("x is held under %v; token %d, which its holder trusts, was expected", held, token)
				}
				fourth := make(told, 16)
				b.Attach(t.Context(), cell.Hello{
					Session: s.Session(), Generation: 4, TTL: ttl, Held: []uint64{uint64(token)}, Next: 2,
				}, fourth)
				a4 := <-fourth
				if welcome, ok := a4.(locktable.Attached); !ok || len(welcome.Lost) > 0 {
					t.Errorf("the greeting of now is answered with %#v", a4)
				}
			})
		})
	}
}

// A request is granted while its client moves it to another number, and says in the
// same message that all below that is finished. The lease goes back, and the request
// keeps its place.
func TestGrantOfReplacedRequestIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		x := s.acquire(t, "x", time.Minute, 0)
		said := make(told, 16)
		c := s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: time.Minute, Next: 1}, said)
		<-said
		c.Submit(cell.Message{Finished: 1, Acquires: []locktable.Acquire{{Number: 1, Names: []string{"x"}}}})
		place := said.waiting()
		if err := s.Release(t.Context(), x.ID); err != nil {
			t.Fatal(err)
		}
		first := said.granted().Token
		c.Submit(cell.Message{Finished: 1025, Acquires: []locktable.Acquire{
			{Number: 1025, Names: []string{"x"}, Ticket: place, Replaces: 1},
		}})
		second := said.granted().Token
		held, waiters := s.holders(t, "x")
		if second == first || !slices.Equal(held, []guard.Token{second}) || waiters != 0 {
			t.Errorf("x is held under %v and %d wait; token %d alone was expected", held, waiters, second)
		}
	})
}
