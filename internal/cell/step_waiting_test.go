package cell

import (
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// departing is a receiver that may go.
type departing struct {
	gone bool
	told []locktable.Answer
}

func (d *departing) Receive(_ uint64, a locktable.Answer) { d.told = append(d.told, a) }
func (d *departing) Gone(locktable.Answer) bool           { return d.gone }

// While a store says nothing, whoever asks gives up and asks again. What they will
// not hear is not kept for them.
func TestAnswersOfWhoIsGoneAreDropped(t *testing.T) {
	for _, full := range []bool{false, true} {
		s := &stepper{t: t}
		s.run("begin")
		s.run("step open a")
		s.run("land 2")
		s.run("advance 10ms")
		s.run("step open b")
		if full {
			s.run("full")
		}
		stays := &departing{}
		s.c.step(s.now, s.wall, []locktable.Command{locktable.List{Ref: stays, Name: "n"}}, nil, true)
		const each = 1 << 12
		most := 0
		for range 8 * roomyMin / each {
			var all []locktable.Command
			one := &departing{}
			for range each {
				all = append(all, locktable.List{Ref: one, Name: "n"})
			}
			s.c.step(s.now, s.wall, all, nil, true)
			one.gone = true
			kept := 0
			for _, g := range s.c.groups {
				kept += len(g.replies)
			}
			if kept != s.c.waiting {
				t.Fatalf("%d answers wait, %d were counted", kept, s.c.waiting)
			}
			most = max(most, kept)
		}
		if most > roomyMin+each {
			t.Errorf("full: %v: %d answers were kept", full, most)
		}
		s.c.out = actions{}
		s.c.asked = s.c.turn
		s.c.answered(true)
		s.c.landed(3)
		heard := 0
		for _, g := range s.c.take().deliver {
			for _, r := range g.replies {
				if r.To == locktable.Ref(stays) {
					heard++
				}
			}
		}
		if heard != 1 || s.c.waiting != 0 || len(s.c.groups) != 0 {
			t.Errorf("full: %v: who stayed was told %d times; %d answers wait in %d groups", full, heard, s.c.waiting, len(s.c.groups))
		}
	}
}

// A stream that has answers made on a full store that cannot leave is ended, and
// others are not.
func TestAStreamThatHasTooMuchMade(t *testing.T) {
	s := &stepper{t: t}
	s.run("begin")
	s.run("step open a; open quiet")
	s.run("land 2")
	s.run("advance 10ms")
	s.run("step open b")
	s.run("full")
	loud := &departing{}
	for range 2 * roomyMin / heldMax {
		var all []locktable.Command
		for range heldMax {
			all = append(all, locktable.Release{Ref: loud, Lease: stepID("none")})
		}
		s.c.step(s.now, s.wall, append(all, locktable.Release{Ref: &departing{}, Lease: stepID("none")}), nil, true)
	}
	closed := 0
	for _, g := range s.c.take().deliver {
		for _, r := range g.replies {
			if a, ended := r.Answer.(locktable.Closed); !ended || a.Reason != locktable.Exhausted || r.To != locktable.Ref(loud) {
				t.Errorf("%v was told %#v", r.To, r.Answer)
			} else {
				closed++
			}
		}
	}
	if closed == 0 {
		t.Error("it goes on")
	}
	loud.gone = true
	for range 2 * roomyMin {
		s.c.step(s.now, s.wall, []locktable.Command{locktable.Release{Ref: loud, Lease: stepID("none")}}, nil, true)
	}
	if s.c.waiting > roomyMin {
		t.Errorf("%d answers wait, of who is gone", s.c.waiting)
	}
}
