package locktable

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// shop is a table with narrow limits, in which everybody asks on a stream.
type shop struct {
	table *Table
	now   Now
	d     Decided
	drawn uint64
}

func newShop(limits bounds.Limits) *shop {
	s := &shop{table: New(limits)}
	s.table.Found("c", make([]byte, 32), &s.d)
	s.table.Open(1, time.Unix(1<<30, 0), 0, &s.d)
	s.now.Wall = time.Unix(1<<31, 0)
	return s
}

// decide returns the first answer, and the turn is over.
func (s *shop) decide(c Command) (first Answer) {
	s.d = Decided{}
	s.table.Decide(s.now, c, &s.d)
	if len(s.d.Replies) > 0 {
		first = s.d.Replies[0].Answer
	}
	s.table.Work(s.now, 1000, &s.d)
	return first
}

func (s *shop) id() (id ID) {
	s.drawn++
	binary.LittleEndian.PutUint64(id[:], s.drawn)
	return id
}

func (s *shop) attach(identity string) ID {
	id := s.id()
	s.decide(Attach{Ref: id, New: id, Generation: 1, TTL: bounds.TTLDefault, Identity: identity})
	return id
}

// pass has sessions that nobody hears end, and lock-delays and request ids too.
func (s *shop) pass(d time.Duration) {
	for end := s.now.Low + d; s.now.Low < end; {
		s.now.Low += min(d, time.Minute)
		s.now.High = s.now.Low
		for range SuspectTurns + 2 {
			s.d = Decided{}
			s.now.Low += SuspectFor
			s.now.High = s.now.Low
			s.table.Tick(s.now, true, 1000, &s.d)
			s.table.Work(s.now, 1000, &s.d)
		}
	}
}

// One identity takes up at most its share of each resource that the table keeps for
// clients; others then still have room, and what ends is given back. A table that is
// rebuilt from the log counts the same.
func TestEveryKindOfUseIsLimitedPerIdentity(t *testing.T) {
	limits := bounds.DefaultLimits
	limits.TextBytes, limits.Closed, limits.Observers, limits.Finished = 2*4*100, 2*4, 2*4, 2*4
	name := func(identity string, i int) string { return fmt.Sprintf("%s%0*d", identity, 100-len(identity), i) }
	own := func(s *shop, who string, i int) Acquire {
		return Acquire{
			Ref: s.id(), Lease: s.id(), Own: s.id(), TTL: time.Second, Try: true, Identity: who, Names: []string{fmt.Sprint(who, i)},
		}
	}
	for what, c := range map[string]struct {
		leases int
		ask    func(s *shop, who string, session ID, i int) Answer
	}{
		"names": {0, func(s *shop, who string, session ID, i int) Answer {
			return s.decide(Acquire{
				Ref: session, Session: session, Generation: 1, Number: uint64(i + 1), Try: true, Identity: who, Names: []string{name(who, i)},
			})
		}},
		"labels": {0, func(s *shop, who string, session ID, i int) Answer {
			return s.decide(Acquire{
				Ref: session, Session: session, Generation: 1, Number: uint64(i + 1), Try: true, Identity: who,
				Names: []string{fmt.Sprint(who, i)}, Label: strings.Repeat("l", 98),
			})
		}},
		"names that a lock-delay closes": {0, func(s *shop, who string, _ ID, i int) Answer {
			a := own(s, who, i)
			a.LockDelay = time.Hour
			defer s.pass(3 * time.Second)
			return s.decide(a)
		}},
		"names that the end of a rider closes": {0, func(s *shop, who string, _ ID, i int) Answer {
			a := own(s, who, i)
			a.Claims, a.RideThrough = true, time.Hour
			defer s.pass(3 * time.Second)
			return s.decide(a)
		}},
		"request ids": {2 * 4, func(s *shop, who string, _ ID, i int) Answer {
			a := own(s, who, i)
			a.RequestKey = s.id()
			defer s.decide(Release{Ref: a.Ref, Lease: a.Lease, Identity: who})
			return s.decide(a)
		}},
		"observed names": {0, func(s *shop, who string, session ID, i int) Answer {
			return s.decide(Observe{Ref: session, Session: session, Generation: 1, Name: name(who, i)})
		}},
		"requests that are finished before an earlier one": {0, func(s *shop, who string, session ID, i int) Answer {
			number := uint64(2*i + 2) // and 1 is never asked
			a := s.decide(Acquire{
				Ref: session, Session: session, Generation: 1, Number: number, Identity: who, Names: []string{who},
			})
			if g, granted := a.(Granted); granted {
				s.decide(Release{Ref: session, Session: session, Generation: 1, Number: number + 1, Token: g.Token})
			}
			return a
		}},
		"cancelled requests": {-1, func(s *shop, _ string, session ID, i int) Answer {
			return s.decide(Cancel{Session: session, Generation: 1, Number: uint64(i + 1)})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			limits := limits
			switch {
			case c.leases > 0:
				limits.Leases = c.leases
			case c.leases < 0:
				limits.Waiters = 2 * 4
			}
			s := newShop(limits)
			refused := func(who string, session ID, i int) string {
				switch a := c.ask(s, who, session, i).(type) {
				case Refused:
					return string(a.Reason) + ": " + a.Message
				case Closed:
					return string(a.Reason) + ": " + a.Message
				case Observed:
					if a.Reason != "" {
						return string(a.Reason) + ": " + a.Message
					}
				}
				return ""
			}
			full := func(who, why string) {
				t.Helper()
				session := s.attach(who)
				for i := range 4 {
					if no := refused(who, session, i); no != "" {
						t.Fatalf("%s, %d: %s", who, i, no)
					}
				}
				if no := refused(who, session, 4); !strings.HasPrefix(no, "exhausted") || !strings.Contains(no, why) {
					t.Errorf("%s, beyond its share: %q", who, no)
				}
			}
			full("a", "share of the cell's")
			full("b", "")
			s.same(t)
			// Everybody goes, and an hour later nothing of it is left.
			s.pass(2 * time.Hour)
			if s.table.total != (usage{}) || len(s.table.usage) != 0 {
				t.Errorf("when all are gone there are left %+v, %+v", s.table.total, s.table.usage)
			}
			full("a", "share of the cell's")
		})
	}
}

// same rebuilds the table from a snapshot and compares what identities take up,
// beside what is not decided.
func (s *shop) same(t *testing.T) {
	t.Helper()
	again := New(s.table.limits)
	for e := range s.table.Freeze(s.now).Events() {
		if err := again.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for who, was := range s.table.usage {
		was.observers, was.cancels, was.waiters = 0, 0, 0
		if is := again.usage[who]; is != was {
			t.Errorf("%s takes up %+v, and %+v in a table that was rebuilt", who, was, is)
		}
	}
}

// What changes often in one turn costs its observers few answers: for the first
// changes and the last.
func TestObserverAnswersPerTurnAreBounded(t *testing.T) {
	s := newShop(bounds.DefaultLimits)
	watcher, late, holder := s.attach("a"), s.attach("a"), s.attach("a")
	s.decide(Observe{Ref: watcher, Session: watcher, Generation: 1, Name: "x"})
	s.d = Decided{}
	const n = 100
	for i := range uint64(n) {
		s.table.Decide(s.now, Acquire{Ref: holder, Session: holder, Generation: 1, Number: i + 1, Names: []string{"x"}}, &s.d)
	}
	for i := range uint64(n - 1) {
		s.table.Decide(s.now, Cancel{Session: holder, Generation: 1, Number: i + 1}, &s.d)
	}
	// Who comes meanwhile does not keep the others from being told.
	s.table.Decide(s.now, Observe{Ref: late, Session: late, Generation: 1, Name: "x"}, &s.d)
	s.table.Work(s.now, 1000, &s.d)
	var told []Observed
	for _, r := range s.d.Replies {
		if o, yes := r.Answer.(Observed); yes && r.To == watcher {
			told = append(told, o)
		}
	}
	last := s.table.locks["x"].holders[0].token
	if len(told) != atOnce+1 || told[atOnce].Token != last {
		t.Errorf("told of %v; expected %d, and that token %d holds it", told, atOnce+1, last)
	}
}

// Who comes in such a turn, and is shown what the others are not, is told of its end
// even when the others know that already.
func TestObserverAddedMidTurnSeesEnd(t *testing.T) {
	s := newShop(bounds.DefaultLimits)
	watcher, late, holder := s.attach("a"), s.attach("a"), s.attach("a")
	s.decide(Observe{Ref: watcher, Session: watcher, Generation: 1, Name: "x"})
	s.d = Decided{}
	take := func(n uint64) {
		s.table.Decide(s.now, Acquire{Ref: holder, Session: holder, Generation: 1, Number: n, Names: []string{"x"}}, &s.d)
	}
	give := func(n uint64) {
		s.table.Decide(s.now, Cancel{Session: holder, Generation: 1, Number: n}, &s.d)
	}
	last := uint64(atOnce / 2)
	for n := range last {
		take(n + 1)
		give(n + 1)
	}
	take(last + 1)
	s.table.Decide(s.now, Observe{Ref: late, Session: late, Generation: 1, Name: "x"}, &s.d)
	give(last + 1)
	s.table.Work(s.now, 1000, &s.d)
	var told []Observed
	for _, r := range s.d.Replies {
		if o, yes := r.Answer.(Observed); yes && r.To == late {
			told = append(told, o)
		}
	}
	if len(told) != 2 || told[0].Token == 0 || told[1].Token != 0 {
		t.Errorf("told of %v; expected a holder, and then that nobody holds it", told)
	}
}
