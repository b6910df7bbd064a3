package link

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
)

// gated is a server whose gate the test has, too.
func gated(t *testing.T) (*access.Gate, linkpb.LinkClient) {
	t.Helper()
	g := access.NewGate(policyOf(t, people()))
	return g, serveWith(t, false, Options{Gate: g})
}

// callerOf is an identity as the gate lets it in.
func callerOf(t *testing.T, g *access.Gate, who string) *access.Caller {
	t.Helper()
	c, err := g.Admit(access.Proof{Authorization: []string{"Bearer " + secretOf(who)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An identity whose large messages are being decoded already waits with the next one,
// on a stream and in a call without one. Its small ones, and others, do not.
func TestLargeMessagesOfIdentityAreDecodedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := gated(t)
		var turns []func()
		for range access.DecodingsMax {
			done, err := g.Decoding(t.Context(), callerOf(t, g, "a"))
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, done)
		}
		value := bytes.Repeat([]byte("v"), 2*access.SmallMax)
		ended := make(chan string, 4)
		call := func(who, what, name string, value []byte) {
			go func() {
				if _, err := c.Acquire(as(context.Background(), who), &linkpb.AcquireRequest{Name: name, Value: value}); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				ended <- what
			}()
			synctest.Wait()
		}
		call("a", "a large call", "a/1", value)
		call("a", "a small call", "a/2", nil)
		if got := <-ended; got != "a small call" {
			t.Errorf("%s did not wait", got)
		}
		call("b", "another's large call", "b/1", value)
		if got := <-ended; got != "another's large call" {
			t.Errorf("%s came before another's", got)
		}
		st, err := c.Attach(as(context.Background(), "a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Send(&linkpb.ClientMessage{Hello: hello()}); err != nil || recv(t, st).Welcome == nil {
			t.Fatalf("a small greeting: %v", err)
		}
		request := acquires(1, func(int) string { return "a/3" })
		request[0].GetAcquire().Value = value
		if err := st.Send(&linkpb.ClientMessage{Requests: request}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case got := <-ended:
			t.Errorf("%s did not wait", got)
		default:
		}
		if l, err := c.List(as(context.Background(), "a"), &linkpb.ListRequest{Name: "a/3"}); err != nil || len(l.Locks) != 0 {
			t.Errorf("a large message of a stream did not wait: %v, %v", l, err)
		}
		for _, done := range turns {
			done()
		}
		if got := <-ended; got != "a large call" {
			t.Error(got)
		}
		if m := recv(t, st); len(m.Replies) != 1 || m.Replies[0].GetGranted() == nil {
			t.Errorf("the large message of the stream: %v", m)
		}
	})
}

// A large call that has waited for its turn for as long as for its message is ended.
func TestLargeCallWithoutTurnTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := gated(t)
		for range access.DecodingsMax {
			done, err := g.Decoding(t.Context(), callerOf(t, g, "a"))
			if err != nil {
				t.Fatal(err)
			}
			defer done()
		}
		began := time.Now()
		_, err := c.Acquire(as(context.Background(), "a"), &linkpb.AcquireRequest{Name: "a/1", Value: make([]byte, 2*access.SmallMax)})
		if code := status.Code(err); code != codes.Canceled || time.Since(began) != GreetingMax {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// What is larger than any message that a client of ours sends is not read.
func TestOversizedMessageIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := gated(t)
		if _, err := c.Acquire(as(context.Background(), "a"), &linkpb.AcquireRequest{Name: "a/1", Value: make([]byte, bounds.MessageMax)}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a call: %v", err)
		}
		st := attach(t, serve(t, false), &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		_ = st.Send(&linkpb.ClientMessage{Observe: []string{string(make([]byte, bounds.MessageMax))}})
		if _, err := st.Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message of a stream: %v", err)
		}
	})
}

// greetingOf is a greeting of a session with so many leases and requests.
func greetingOf(held, wanted int) *linkpb.Hello {
	h := hello()
	h.Session = make([]byte, 16)
	for i := range held {
		h.Held = append(h.Held, 1<<62+uint64(i))
	}
	for i := range wanted {
		h.Wanted = append(h.Wanted, 1<<62+uint64(i))
	}
	return h
}

// messagesOf is a greeting in messages that name as much as one may.
func messagesOf(h *linkpb.Hello) []*linkpb.ClientMessage {
	held, wanted := h.Held, h.Wanted
	h.Held, h.Wanted, h.Further = nil, nil, uint32(len(held)+len(wanted))
	all := []*linkpb.ClientMessage{{Hello: h}}
	for part := range slices.Chunk(held, bounds.NamedMax) {
		all = append(all, &linkpb.ClientMessage{Hello: &linkpb.Hello{Held: part}})
	}
	for part := range slices.Chunk(wanted, bounds.NamedMax) {
		all = append(all, &linkpb.ClientMessage{Hello: &linkpb.Hello{Wanted: part}})
	}
	return all
}

// The largest greeting comes in messages, and is answered when it is whole.
func TestGreetingInSeveralMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		st := attach(t, c, nil)
		all := messagesOf(greetingOf(bounds.HeldMax, bounds.HeldMax))
		for _, m := range all {
			if err := st.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		if m := recv(t, st); m.Closed == nil || m.Closed.Reason != linkpb.Reason_REASON_GONE || len(all) != 1+2*bounds.HeldMax/bounds.NamedMax {
			t.Errorf("%d messages, answered by %v", len(all), m)
		}
	})
}

// A greeting whose further messages are not what it announced ends its stream, and
// gives back the room that it had.
func TestInvalidGreetingContinuationEndsStream(t *testing.T) {
	part := func(held int) *linkpb.ClientMessage {
		return &linkpb.ClientMessage{Hello: &linkpb.Hello{Held: make([]uint64, held)}}
	}
	announcing := func(further uint32) *linkpb.ClientMessage {
		h := greetingOf(0, 0)
		h.Further = further
		return &linkpb.ClientMessage{Hello: h}
	}
	for what, tc := range map[string]struct {
		all  []*linkpb.ClientMessage
		code codes.Code // OK: it is closed as invalid
	}{
		"too many in its first message": {[]*linkpb.ClientMessage{{Hello: greetingOf(bounds.NamedMax, 1)}}, codes.OK},
		"more than there may be":        {[]*linkpb.ClientMessage{announcing(2*bounds.HeldMax + 1)}, codes.OK},
		"one that names nothing":        {[]*linkpb.ClientMessage{announcing(5), part(0)}, codes.InvalidArgument},
		"no greeting":                   {[]*linkpb.ClientMessage{announcing(5), {Renewal: 1}}, codes.InvalidArgument},
		"more than announced":           {[]*linkpb.ClientMessage{announcing(5), part(3), part(3)}, codes.InvalidArgument},
		"too many in one":               {[]*linkpb.ClientMessage{announcing(2 * bounds.NamedMax), part(bounds.NamedMax + 1)}, codes.InvalidArgument},
		"too many of one kind": {append([]*linkpb.ClientMessage{announcing(bounds.HeldMax + bounds.NamedMax)},
			repeated(part(bounds.NamedMax), bounds.HeldMax/bounds.NamedMax+1)...), codes.InvalidArgument},
		"less than announced": {[]*linkpb.ClientMessage{announcing(5), part(3)}, codes.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, c := gated(t)
			st, err := c.Attach(as(context.Background(), "a"))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tc.all {
				_ = st.Send(m)
			}
			m, err := st.Recv()
			if tc.code == codes.OK && (m.GetClosed() == nil || m.Closed.Reason != linkpb.Reason_REASON_INVALID) || status.Code(err) != tc.code {
				t.Errorf("%s: %v, %v", what, m, err)
			}
			if !hasRoom(t, g, "a") {
				t.Errorf("%s: its room is not given back", what)
			}
		})
	}
}

// hasRoom reports whether an identity has taken none of its room.
func hasRoom(t *testing.T, g *access.Gate, who string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	give, err := g.Bytes(ctx, callerOf(t, g, who), access.BytesMax)
	if err != nil {
		return false
	}
	give()
	return true
}

func repeated(m *linkpb.ClientMessage, n int) (all []*linkpb.ClientMessage) {
	for range n {
		all = append(all, m)
	}
	return all
}

// A large greeting waits for room that others of its identity have taken, and has it
// only until it is answered.
func TestLargeGreetingWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := gated(t)
		give, err := g.Bytes(t.Context(), callerOf(t, g, "a"), access.BytesMax)
		if err != nil {
			t.Fatal(err)
		}
		greet := func(who string, n int) clientStream {
			st, err := c.Attach(as(context.Background(), who))
			if err != nil {
				t.Fatal(err)
			}
			h := greetingOf(n, 0)
			h.Session = nil
			for _, m := range messagesOf(h) {
				if err := st.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			return st
		}
		waits := make(chan *linkpb.ServerMessage, 1)
		go func() { waits <- recv(t, greet("a", 2*bounds.NamedMax)) }()
		synctest.Wait()
		if m := recv(t, greet("a", 0)); m.Welcome == nil {
			t.Errorf("a greeting of one message: %v", m)
		}
		if m := recv(t, greet("b", 2*bounds.NamedMax)); m.Welcome == nil {
			t.Errorf("another's: %v", m)
		}
		select {
		case m := <-waits:
			t.Fatalf("where there is no room: %v", m)
		default:
		}
		give()
		if m := <-waits; m.Welcome == nil {
			t.Errorf("when there is room: %v", m)
		}
		if !hasRoom(t, g, "a") {
			t.Error("the room of a greeting is not given back")
		}
	})
}

// Who has gone when its turn comes takes none with it.
func TestGoneCallerReturnsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := gated(t)
		s := New(nil, Options{Gate: g})
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range access.AllDecodingsMax {
			u := &Undecoded{bytes: mem.BufferSlice{mem.SliceBuffer(make([]byte, 2*access.SmallMax))}}
			if err := s.decode(gone, callerOf(t, g, "a"), u, new(linkpb.ClientMessage)); status.Code(err) != codes.Canceled {
				t.Fatal(err)
			}
		}
		if _, err := c.Acquire(as(context.Background(), "a"), &linkpb.AcquireRequest{Name: "a/1", Value: make([]byte, 2*access.SmallMax)}); err != nil {
			t.Errorf("a large call after that: %v", err)
		}
	})
}

// A compressed message is a thousand times as large as on the wire: none is taken.
func TestCompressedMessagesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := gated(t)
		packed := grpc.UseCompressor(gzip.Name)
		if _, err := c.Acquire(as(context.Background(), "a"), &linkpb.AcquireRequest{Name: "a/1"}, packed); status.Code(err) != codes.Internal {
			t.Errorf("a call: %v", err)
		}
		st, err := c.Attach(as(t.Context(), "a"), packed)
		if err != nil {
			t.Fatal(err)
		}
		_ = st.Send(&linkpb.ClientMessage{Hello: hello()})
		if m, err := st.Recv(); status.Code(err) != codes.Internal {
			t.Errorf("a stream: %v, %v", m, err)
		}
	})
}

// What a stream said last is many times as large in memory as on the wire, and not
// kept while it says nothing.
func TestIdleStreamKeepsNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		request := acquires(1, func(int) string { return "" })
		request[0].GetAcquire().Names = make([]string, bounds.MessageMax/2-1000)
		inUse := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		const streams = 20
		var before int
		for k := range streams + 1 {
			st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
			recv(t, st)
			if err := st.Send(&linkpb.ClientMessage{Requests: request}); err != nil {
				t.Fatal(err)
			}
			if m := recv(t, st); len(m.Replies) != 1 || m.Replies[0].GetRefused().GetReason() != linkpb.Reason_REASON_INVALID {
				t.Fatalf("%v", m)
			}
			if synctest.Wait(); k == 0 {
				before = inUse()
			}
		}
		if each := (inUse() - before) / streams; each > bounds.MessageMax {
			t.Errorf("an idle stream keeps %d bytes; its message had %d", each, bounds.MessageMax)
		}
	})
}

// A greeting is kept until it is answered, perhaps for long: it asks for nothing.
func TestGreetingWithRequestsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wordy := hello()
		wordy.Features = make([]string, bounds.FeaturesMax+1)
		for what, m := range map[string]*linkpb.ClientMessage{
			"requests": {Hello: hello(), Requests: acquires(1, func(int) string { return "a" })},
			"observe":  {Hello: hello(), Observe: []string{"a"}},
			"features": {Hello: wordy},
		} {
			m.Hello.WaitNano = int64(time.Hour)
			if got, err := attach(t, serve(t, true), m).Recv(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v, %v", what, got, err)
			}
		}
	})
}
