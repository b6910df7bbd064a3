package pawl

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// Whatever a server says, the core does not panic, and what it hands out are
// leases or errors, never both and never neither.
func FuzzServerMessages(f *testing.F) {
	for _, m := range []*linkpb.ServerMessage{
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
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, false)
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, greeted bool) {
		var m linkpb.ServerMessage
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		c := newCore([]string{"a"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
		c.tick()
		var calls []*call
		watching := newObserver("x")
		stream := true
		c.effects.dial = nil
		ask := func(kind callKind, on *Lease) {
			q := newCall(kind)
			q.wants.names, q.ctx, q.on, q.ttl = []string{"x"}, context.Background(), on, time.Minute
			calls = append(calls, q)
			c.begin(q)
		}
		say := func(m *linkpb.ServerMessage) {
			c.heard(lineEvent{id: c.line.id, message: m})
			c.tick()
			stream = stream && !c.effects.hangUp || c.effects.dial != nil
			c.effects.hangUp, c.effects.dial = false, nil
			for m := c.message(); m != nil; m = c.message() {
				if !stream {
					t.Errorf("nothing carries %v", m)
				}
			}
		}
		if greeted {
			say(&linkpb.ServerMessage{Welcome: &linkpb.Welcome{Cell: "c", Session: []byte("s"), TtlNano: int64(3 * time.Second)}})
			ask(callAcquire, nil)
			say(&linkpb.ServerMessage{Replies: []*linkpb.Reply{{Number: 1, What: &linkpb.Reply_Granted{
				Granted: &linkpb.Granted{Token: 5, Fences: []*linkpb.Fence{{Name: "x", Fence: 5}}},
			}}}})
			ask(callAcquire, nil)
			ask(callRelease, calls[0].lease)
			ask(callCheck, calls[0].lease)
			c.observe(watching)
			ask(callTTL, nil)
		}
		for i := range 4 {
			c.at(clock.Reading{}.Add(time.Duration(i) * 400 * time.Millisecond))
			say(&m)
		}
		c.close(time.Second)
		say(&m)
		c.at(clock.Reading{}.Add(time.Hour))
		c.tick()
		if !c.finished {
			t.Error("the client does not end")
		}
		if _, err := watching.take(); greeted && err == nil {
			t.Error("the observer was not told that it is over")
		}
		for i, q := range calls {
			if !q.decided.Load() {
				t.Errorf("call %d was never answered", i)
			} else if q.kind == callAcquire && (q.lease == nil) == (q.err == nil) {
				t.Errorf("call %d: %v, %v", i, q.lease, q.err)
			}
		}
	})
}
