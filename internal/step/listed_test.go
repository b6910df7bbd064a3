package step

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// While a store is silent no listing leaves. Pages that show so much are kept and no
// more, and further ones are refused; what leaves, or is dropped, makes room.
func TestPendingPagesAreBounded(t *testing.T) {
	const names, each = bounds.PageMax, 64
	for _, end := range []string{"confirmed", "full", "gone"} {
		s := &stepper{t: t, wall: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
		s.run("begin")
		s.run("advance 1s")
		var acquires []locktable.Command
		for i := range names {
			name := fmt.Sprint("n", i)
			acquires = append(acquires, locktable.Acquire{
				Ref: new(receiver), Names: []string{name}, Lease: stepID(name), Own: stepID("of " + name), TTL: time.Hour,
			})
		}
		s.c.Step(s.now, s.wall, nil, acquires, true)
		s.c.Landed(s.c.last)
		s.run("advance 1s")
		s.c.Step(s.now, s.wall, nil, nil, true)
		s.c.Answered(true)
		if end == "full" {
			// Something that it refuses, which no listing shows.
			s.c.Step(s.now, s.wall, []locktable.Command{locktable.OpenSession{Ref: new(receiver), New: stepID("s"), TTL: time.Hour}}, nil, true)
			s.c.Full()
		}
		s.c.Take()
		count := func() (listed, refused int) {
			for _, g := range s.c.groups {
				listed += listedIn(g.Replies)
				for _, r := range g.Replies {
					if no, is := r.Answer.(locktable.Refused); is && no.Reason == locktable.Exhausted {
						refused++
					}
				}
			}
			if s.c.listed != listed {
				t.Fatalf("%s: %d names and holders are shown, %d were counted", end, listed, s.c.listed)
			}
			return listed, refused
		}
		all := &departing{}
		ask := func(n int) {
			var lists []locktable.Command
			for range n {
				lists = append(lists, locktable.List{Ref: all})
			}
			s.c.Step(s.now, s.wall, lists, nil, true)
		}
		for range 2 * listedMax / (2 * names) / each {
			ask(each)
		}
		listed, refused := count()
		if listed < listedMax || listed > listedMax+2*names || refused == 0 {
			t.Errorf("%s: pages show %d names and holders, and %d are refused", end, listed, refused)
		}
		switch end {
		case "gone":
			all.gone, s.c.dropAbove = true, 0
			s.c.dropGone()
		default:
			s.c.asked = s.c.turn
			s.c.Answered(true)
		}
		if listed, refused := count(); listed != 0 || refused != 0 {
			t.Errorf("%s: %d names and holders, and %d refusals, are left", end, listed, refused)
		}
		ask(1)
		if listed, _ := count(); listed != 2*names {
			t.Errorf("%s: the next page shows %d names and holders", end, listed)
		}
	}
}
