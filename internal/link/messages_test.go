package link

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
)

// A message is written into the room of the one before. It repeats nothing of that.
func TestReusedMessageHoldsNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		fields := func(m *linkpb.ServerMessage) (all []string) {
			for name, there := range map[string]bool{
				"welcome": m.Welcome != nil, "replies": len(m.Replies) > 0, "notices": len(m.Notices) > 0,
				"observed": len(m.Observed) > 0, "renewal": m.Renewal != 0, "ttl": m.TtlNano != 0, "closed": m.Closed != nil,
			} {
				if there {
					all = append(all, name)
				}
			}
			slices.Sort(all)
			return all
		}
		var token uint64
		say := func(m *linkpb.ClientMessage) func() error { return func() error { return st.Send(m) } }
		for _, step := range []struct {
			what string
			do   func() error
			want []string
		}{
			{"greeting", func() error { return nil }, []string{"welcome"}},
			{"request", say(&linkpb.ClientMessage{Requests: acquires(1, func(int) string { return "n" })}), []string{"replies"}},
			{"observe", say(&linkpb.ClientMessage{Observe: []string{"n"}}), []string{"observed"}},
			{"renewal", say(&linkpb.ClientMessage{Renewal: 1}), []string{"renewal", "ttl"}},
			{"break", func() error {
				_, err := c.Break(context.Background(), &linkpb.BreakRequest{Name: "n", Token: token, Reason: "r"})
				return err
			}, []string{"notices"}},
			{"check", func() error {
				return st.Send(&linkpb.ClientMessage{Requests: []*linkpb.Request{{
					Number: 2, What: &linkpb.Request_Check{Check: &linkpb.Check{Token: token}},
				}}})
			}, []string{"replies"}},
			{"close", say(&linkpb.ClientMessage{Close: true}), []string{"closed"}},
		} {
			time.Sleep(time.Second)
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			m := recv(t, st)
			if got := fields(m); !slices.Equal(got, step.want) {
				t.Errorf("%s: the message has %q, want %q: %v", step.what, got, step.want, m)
			}
			if len(m.Replies) > 0 && m.Replies[0].GetGranted() != nil {
				token = m.Replies[0].GetGranted().Token
			}
		}
	})
}

// One request of a message that cannot be served does not cost the others of it.
func TestRefusedRequestDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people()))})
		st := open(t, c, "a", &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		time.Sleep(time.Second)
		m := &linkpb.ClientMessage{Requests: acquires(4, func(i int) string { return []string{"", "a/1", "b/1", "a/2"}[i] })}
		m.Requests[0].What = nil
		if err := st.Send(m); err != nil {
			t.Fatal(err)
		}
		got := map[uint64]linkpb.Reason{}
		for len(got) < 4 {
			for _, r := range recv(t, st).Replies {
				got[r.Number] = r.GetRefused().GetReason()
			}
		}
		for n, want := range []linkpb.Reason{linkpb.Reason_REASON_INVALID, 0, linkpb.Reason_REASON_DENIED, 0} {
			if got[uint64(n+1)] != want {
				t.Errorf("request %d: %v, want %v", n+1, got[uint64(n+1)], want)
			}
		}
	})
}

// A message may say one thing alone: that requests are finished, or that names are no
// longer observed.
func TestMessagesWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		holder, st := attach(t, c, &linkpb.ClientMessage{Hello: hello()}), attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		recv(t, holder)
		recv(t, st)
		time.Sleep(time.Second)
		send := func(st clientStream, m *linkpb.ClientMessage) {
			t.Helper()
			if err := st.Send(m); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send(holder, tries(1, "n"))
		token := answer(t, holder, 1).GetGranted().GetToken()

		send(st, &linkpb.ClientMessage{Requests: acquires(1, func(int) string { return "n" })})
		if r := recv(t, st).Replies; len(r) != 1 || r[0].GetWaiting() == nil {
			t.Fatalf("replies %v", r)
		}
		send(st, &linkpb.ClientMessage{FinishedBelow: 2})
		send(holder, &linkpb.ClientMessage{Requests: []*linkpb.Request{{
			Number: 2, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: token}},
		}}})
		answer(t, holder, 2)
		send(holder, tries(3, "n"))
		if r := answer(t, holder, 3); r.GetGranted() == nil {
			t.Errorf("a request that its client said is finished was granted: %v", r)
		}

		send(st, &linkpb.ClientMessage{Observe: []string{"m"}})
		if o := recv(t, st).Observed; len(o) != 1 {
			t.Fatalf("observed %v", o)
		}
		send(st, &linkpb.ClientMessage{Unobserve: []string{"m"}})
		send(holder, tries(4, "m"))
		answer(t, holder, 4)
		send(st, &linkpb.ClientMessage{Renewal: 1})
		if m := recv(t, st); m.Renewal != 1 || len(m.Observed) > 0 {
			t.Errorf("a name that is no longer observed is told of: %v", m)
		}
	})
}

// Each name of a lease comes with its own fence: that of a shared name is the fence of
// the readers who have it already.
func TestEachNameHasItsOwnFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		first, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: "x", Shared: true, WaitNano: int64(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		call, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: "x", Names: []string{"y"}, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		if err := st.Send(&linkpb.ClientMessage{Requests: []*linkpb.Request{{
			Number: 1, What: &linkpb.Request_Acquire{Acquire: &linkpb.Acquire{Names: []string{"x", "z"}, Shared: true}},
		}}}); err != nil {
			t.Fatal(err)
		}
		stream := answer(t, st, 1).GetGranted()
		for what, x := range map[string]struct {
			got   []*linkpb.Fence
			other string
			token uint64
		}{"call": {call.Fences, "y", call.Token}, "stream": {stream.GetFences(), "z", stream.GetToken()}} {
			want := []*linkpb.Fence{{Name: "x", Fence: first.Token}, {Name: x.other, Fence: x.token}}
			if !slices.EqualFunc(x.got, want, func(a, b *linkpb.Fence) bool { return proto.Equal(a, b) }) {
				t.Errorf("%s: the fences are %v, want %v", what, x.got, want)
			}
		}
	})
}
