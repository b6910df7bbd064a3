package step

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// While the store is silent, decided events pile up. Callers that acquire with large
// values and release again are delayed before too many bytes wait to be sent (a cancel
// before the answer does the same). They go on when the store does.
func TestUnsentEventBytesAreBounded(t *testing.T) {
	s := &stepper{t: t, wall: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.run("begin")
	s.run("advance 1s")
	value := make([]byte, bounds.ValueMax)
	const each = 100
	counted := func() {
		all := 0
		for _, e := range s.c.open {
			all += proto.Size(e) + 8
		}
		if s.c.openBytes != all || len(s.c.sizes) != len(s.c.open) {
			t.Fatalf("%d bytes of %d events are open, %d were counted", all, len(s.c.open), s.c.openBytes)
		}
	}
	rounds := 0
	for ; !s.c.Backlogged(); rounds++ {
		var acquires, releases []locktable.Command
		for i := range each {
			name := fmt.Sprint(rounds, "/", i)
			a := locktable.Acquire{
				Ref: new(receiver), Names: []string{name}, Value: value, Lease: stepID(name), Own: stepID("of " + name), TTL: time.Hour, Try: true,
			}
			acquires, releases = append(acquires, a), append(releases, locktable.Release{Ref: new(receiver), Lease: a.Lease})
		}
		s.c.Step(s.now, s.wall, nil, acquires, true)
		s.c.Step(s.now, s.wall, releases, nil, true)
		counted()
		s.run("advance 1ms")
	}
	if over := s.c.openBytes - openBytesMax; over <= 0 || over > each*(bounds.ValueMax+1000) || len(s.c.open) >= openMax {
		t.Errorf("%d bytes of %d events wait when acquires are held back", s.c.openBytes, len(s.c.open))
	}
	for s.c.durable < s.c.last {
		s.c.Landed(s.c.durable + 1)
		counted()
	}
	if s.c.Backlogged() || s.c.openBytes != 0 {
		t.Errorf("all has landed, and %d bytes wait", s.c.openBytes)
	}
}
