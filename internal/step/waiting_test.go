package step

import (
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// departing is a receiver that may go.
type departing struct {
	gone bool
	told []locktable.Answer
	// asked counts how often it was asked whether it is gone.
	asked int
}

func (d *departing) Receive(_ uint64, a locktable.Answer) { d.told = append(d.told, a) }

func (d *departing) Gone(locktable.Answer) bool {
	d.asked++
	return d.gone
}

// While a store says nothing, callers give up and ask again. What they will
// not hear is not kept for them.
func TestAnswersForGoneReceiversAreDropped(t *testing.T) {
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
		s.c.Step(s.now, s.wall, []locktable.Command{locktable.List{Ref: stays, Name: "n"}}, nil, true)
		const each = 1 << 12
		most := 0
		for range 8 * dropMin / each {
			var all []locktable.Command
			one := &departing{}
			for range each {
				all = append(all, locktable.List{Ref: one, Name: "n"})
			}
			s.c.Step(s.now, s.wall, all, nil, true)
			one.gone = true
			kept := 0
			for _, g := range s.c.groups {
				kept += len(g.Replies)
			}
			if kept != s.c.waiting {
				t.Fatalf("%d answers wait, %d were counted", kept, s.c.waiting)
			}
			most = max(most, kept)
		}
		if most > dropMin+each {
			t.Errorf("full: %v: %d answers were kept", full, most)
		}
		s.c.out = Actions{}
		s.c.asked = s.c.turn
		s.c.Answered(true)
		s.c.Landed(3)
		heard := 0
		for _, g := range s.c.Take().Groups {
			for _, r := range g.Replies {
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
func TestStreamWithTooManyWaitingAnswersIsClosed(t *testing.T) {
	s := &stepper{t: t}
	s.run("begin")
	s.run("step open a; open quiet")
	s.run("land 2")
	s.run("advance 10ms")
	s.run("step open b")
	s.run("full")
	loud := &departing{}
	for range 2 * dropMin / heldMax {
		var all []locktable.Command
		for range heldMax {
			all = append(all, locktable.Release{Ref: loud, Lease: stepID("none")})
		}
		s.c.Step(s.now, s.wall, append(all, locktable.Release{Ref: &departing{}, Lease: stepID("none")}), nil, true)
	}
	closed := 0
	for _, g := range s.c.Take().Groups {
		for _, r := range g.Replies {
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
	for range 2 * dropMin {
		s.c.Step(s.now, s.wall, []locktable.Command{locktable.Release{Ref: loud, Lease: stepID("none")}}, nil, true)
	}
	if s.c.waiting > dropMin {
		t.Errorf("%d answers wait, of who is gone", s.c.waiting)
	}
}

// Answers that wait are looked through when they have doubled, and not with each turn:
// however many wait, each is looked at a few times.
func TestWaitingAnswersAreScannedWhenDoubled(t *testing.T) {
	s := &stepper{t: t}
	s.run("begin")
	stays := &departing{}
	const each, all = 1 << 10, 4 * dropMin
	for made := 0; made < all; made += each {
		var lists []locktable.Command
		for range each {
			lists = append(lists, locktable.List{Ref: stays, Name: "n"})
		}
		s.c.Step(s.now, s.wall, lists, nil, true)
		if stays.asked > 2*all {
			t.Fatalf("%d looks at %d answers", stays.asked, made)
		}
	}
	if s.c.waiting != all {
		t.Errorf("%d answers wait of %d", s.c.waiting, all)
	}
}

// On a full store, what can go before the records that are stuck does so, although
// answers before it were dropped since it was decided where it stands.
func TestAnswersPassAfterDrops(t *testing.T) {
	s := &stepper{t: t}
	s.run("begin")
	s.run("step open a")
	s.run("land 2")
	s.run("advance 10ms")
	s.run("step open b")
	s.run("full")
	goes, stays := &departing{}, &departing{}
	none := func(n int) (all []locktable.Command) {
		for range n {
			all = append(all, locktable.Release{Ref: goes, Lease: stepID("none")})
		}
		return all
	}
	confirm := func() {
		s.c.asked = s.c.turn
		s.c.Answered(true)
	}
	s.c.Step(s.now, s.wall, none(1), nil, true)
	confirm()
	if out := s.c.Take().Groups; len(out) > 0 {
		t.Fatalf("delivered %v; what was asked of leases waits", out)
	}
	goes.gone = true
	s.c.Step(s.now, s.wall, append(none(dropMin+1), locktable.Renew{Ref: stays, Session: stepID("a")}), nil, true)
	if s.c.waiting > 3 {
		t.Fatalf("%d answers wait", s.c.waiting)
	}
	confirm()
	for _, g := range s.c.Take().Groups {
		for _, r := range g.Replies {
			r.To.(*departing).Receive(r.Number, r.Answer)
		}
	}
	if len(stays.told) != 1 {
		t.Errorf("a renewal that may pass was told %v", stays.told)
	}
}
