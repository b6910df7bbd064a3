package step

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// The loop rests when nothing ends with time. A name that is closed does, though no
// session lives: whoever waits for it may have none.
func TestNextWhileANameIsClosed(t *testing.T) {
	for what, a := range map[string]locktable.Acquire{ //tidy:unordered each for itself
		"lock-delay":   {LockDelay: 3 * time.Second},
		"ride-through": {Claims: true, RideThrough: 3 * time.Second},
	} {
		s := &stepper{t: t, wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		s.c = newCore(locktable.New(bounds.DefaultLimits), 1, store.Nonce{1})
		s.c.table.Found("test-0123456789abcdef", []byte("secret"), &s.c.decided)
		s.c.opening(s.wall, 0)
		s.c.Begun(s.now)
		waits := &receiver{}
		a.Ref, a.Names, a.Lease, a.Own, a.TTL = &receiver{}, []string{"n"}, stepID("a"), stepID("own a"), time.Second
		b := locktable.Acquire{Ref: waits, Names: []string{"n"}, Lease: stepID("b"), Own: stepID("own b"), TTL: time.Second}
		s.c.Step(s.now, s.wall, nil, []locktable.Command{a, b}, true)

		granted := false
		for past := time.Duration(0); !granted; {
			for x := s.c.Take(); len(x.Appends) > 0 || x.Confirm || len(x.Groups) > 0; x = s.c.Take() {
				for _, g := range x.Groups {
					for _, r := range g.Replies {
						_, is := r.Answer.(locktable.Granted)
						granted = granted || is && r.To == locktable.Ref(waits)
					}
				}
				for _, batch := range x.Appends {
					s.c.Landed(batch.Number)
				}
				if x.Confirm {
					s.c.Answered(true)
				}
			}
			next := s.c.Next()
			if past += next; !granted && (next == 0 || past > time.Minute) {
				t.Fatalf("%s: the loop rests for %v (0: for good) after %v, and somebody waits", what, next, past)
			}
			s.now, s.wall = s.now.Add(next), s.wall.Add(next)
			s.c.Step(s.now, s.wall, nil, nil, true)
		}
	}
}
