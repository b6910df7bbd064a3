package link

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// A stream asks for a TTL with a renewal or with its greeting; every answer says
// what it is good for.
func TestTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		w := recv(t, st).Welcome
		for i, step := range []struct{ ask, want time.Duration }{
			{0, 10 * time.Second},
			{time.Minute, time.Minute},
			{0, time.Minute},
			{2 * time.Second, 2 * time.Second},
			{0, 2 * time.Second},
		} {
			m := &linkpb.ClientMessage{Renewal: uint64(i + 1), TtlNano: int64(step.ask)}
			if err := st.Send(m); err != nil {
				t.Fatal(err)
			}
			if a := recv(t, st); a.Renewal != m.Renewal || a.TtlNano != int64(step.want) {
				t.Errorf("%v: %v", m, a)
			}
		}
		for i, step := range []struct{ ask, want time.Duration }{
			{0, 2 * time.Second}, {5 * time.Second, 5 * time.Second}, {time.Hour, time.Hour},
		} {
			h := hello()
			h.Session, h.Generation, h.TtlNano = w.Session, uint64(i+2), int64(step.ask)
			st = attach(t, c, &linkpb.ClientMessage{Hello: h})
			if a := recv(t, st).Welcome; a.GetTtlNano() != int64(step.want) {
				t.Errorf("greeted with %v: %v", step.ask, a)
			}
		}
		if err := st.Send(&linkpb.ClientMessage{Renewal: 9, TtlNano: 1}); err != nil {
			t.Fatal(err)
		}
		if a := recv(t, st).Closed; a.GetReason() != linkpb.Reason_REASON_INVALID {
			t.Errorf("out of bounds: %v", a)
		}
	})
}
