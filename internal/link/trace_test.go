package link

import (
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Who asks for a trace gets one, and nobody else: answers are written into the
// room of earlier ones.
func TestOnlyTracedRequestsAreTraced(t *testing.T) {
	st := attach(t, serve(t, false), &linkpb.ClientMessage{Hello: hello()})
	recv(t, st)
	ask := func(first uint64, traced ...bool) map[uint64]*linkpb.Reply {
		m := &linkpb.ClientMessage{Requests: acquires(len(traced), func(i int) string { return string(rune('a' + int(first) + i)) })}
		for i, r := range m.Requests {
			r.Number, r.Trace = first+uint64(i), traced[i]
		}
		if err := st.Send(m); err != nil {
			t.Fatal(err)
		}
		granted := map[uint64]*linkpb.Reply{}
		for len(granted) < len(traced) {
			for _, r := range recv(t, st).Replies {
				if r.GetGranted() != nil {
					granted[r.Number] = r
				}
			}
		}
		return granted
	}
	for round := range uint64(3) {
		first := round*4 + 1
		got := ask(first, true, false, true, false)
		for n, r := range got {
			if asked := (n-first)%2 == 0; asked != (r.Trace != nil) {
				t.Errorf("request %d: traced %v", n, r.Trace)
			}
		}
	}
	for n, r := range ask(13, false, false, false, false) {
		if r.Trace != nil {
			t.Errorf("request %d: traced %v", n, r.Trace)
		}
	}
	// A trace is of an acquire that was granted: other answers carry none.
	refused := &linkpb.ClientMessage{Requests: acquires(1, func(int) string { return "b" })}
	refused.Requests[0].Number, refused.Requests[0].Trace = 17, true
	refused.Requests[0].GetAcquire().Try = true
	if err := st.Send(refused); err != nil {
		t.Fatal(err)
	}
	if r := recv(t, st).Replies; len(r) != 1 || r[0].GetRefused() == nil || r[0].Trace != nil {
		t.Errorf("a refused try was told %v", r)
	}
}

// Without a stream it is the same: who asks, and nobody else.
func TestOnlyTracedCallsAreTraced(t *testing.T) {
	c := serve(t, false)
	for i, asks := range []bool{false, true, false} {
		name := string(rune('a' + i))
		a, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: name, Trace: asks})
		if err != nil {
			t.Fatal(err)
		}
		if (a.Trace != nil) != asks {
			t.Errorf("asked for a trace: %t; told %v", asks, a.Trace)
		}
		if x := a.Trace; x != nil && (x.LandedNano == 0 || x.SentNano < x.FinalNano || x.FinalNano < x.LandedNano) {
			t.Errorf("told %v", x)
		}
	}
	// What is not granted has no trace, and leaves none behind.
	for range 20 {
		if a, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: "a", Trace: true}); err == nil {
			t.Errorf("granted %v", a)
		}
	}
	if a, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: "z", Trace: true}); err != nil || a.Trace == nil {
		t.Errorf("told %v, %v", a, err)
	}
}
