package session

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// Whatever a server says, the machine does not panic, and everybody is answered once,
// with a lease or with a reason; every lease has an end.
func FuzzServerMessages(f *testing.F) {
	for _, x := range []*linkpb.ServerMessage{
		{Welcome: &linkpb.Welcome{Cell: "c", Session: []byte("s"), TtlNano: int64(time.Second)}},
		{Renewal: 3, Replies: []*linkpb.Reply{
			{Number: 1, What: &linkpb.Reply_Granted{Granted: &linkpb.Granted{Token: 7, Fences: []*linkpb.Fence{{Name: "x", Fence: 7}}}}},
			{Number: 2, What: &linkpb.Reply_Waiting{Waiting: &linkpb.Waiting{Ticket: []byte("t")}}},
			{Number: 3, What: &linkpb.Reply_Done{Done: &linkpb.Done{}}},
			{Number: 4, What: &linkpb.Reply_Refused{Refused: &linkpb.Refused{Reason: linkpb.Reason_REASON_GONE}}},
		}},
		{Renewal: 2, TtlNano: int64(time.Minute)},
		{Renewal: 4, TtlNano: -1},
		{Notices: []*linkpb.Notice{{Token: 5, Kind: linkpb.Notice_KIND_BROKEN}, {Token: 5}}},
		{Observed: []*linkpb.Observed{{Name: "x", Token: 9, Value: []byte("v")}, {Name: "y"}}},
		{Closed: &linkpb.Closed{Reason: linkpb.Reason_REASON_UNAVAILABLE, ActiveLink: "b"}},
	} {
		raw, err := proto.Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, false)
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, greeted bool) {
		var x linkpb.ServerMessage
		if proto.Unmarshal(raw, &x) != nil {
			return
		}
		settings := ofTwo()
		settings.Servers, settings.Spread = []string{"a"}, 4
		s := start(t, settings)
		var granted []*Lease
		note := func() {
			for _, c := range s.calls {
				if c.lease != nil {
					granted = append(granted, c.lease)
				}
			}
		}
		if greeted {
			s.takeTurn("welcome 3s", "acquire x")
			s.takeTurn("granted 1 5")
			s.takeTurn("acquire x", "release 5", "check 5", "observe x", "ttl 1m")
			s.takeTurn("waiting 2", "acquire y", "leave 5")
		}
		for i := range 4 {
			s.m.At(clock.Reading{}.Add(time.Duration(i) * 400 * time.Millisecond))
			s.hear(&x)
			s.takeTurn()
		}
		s.m.Close(time.Second)
		s.hear(&x)
		s.takeTurn()
		s.m.At(clock.Reading{}.Add(time.Hour))
		s.takeTurn()
		if finished, _ := s.m.Finished(); !finished {
			t.Error("the machine does not end")
		}
		note()
		for _, o := range s.watch {
			if !o.ended {
				t.Error("the observer was not told that it is over")
			}
		}
		for _, c := range s.calls {
			switch {
			case c.gone:
			case !c.answered:
				t.Errorf("call %d was never answered", c.index)
			case c.request != nil && (c.lease == nil) == (c.why == nil):
				t.Errorf("call %d: %v, %s", c.index, c.lease, text(c.why))
			}
		}
		for _, l := range granted {
			if s.ended[l.Token] == nil {
				t.Errorf("lease %d has no end", l.Token)
			}
		}
	})
}
