package link

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/internal/wire"
)

// serve starts a server on a memory store and returns a client of it. The cell
// takes no tenure when idle is set.
func serve(t testing.TB, idle bool) linkpb.LinkClient {
	t.Helper()
	return serveWith(t, idle, Options{})
}

// serveWith is serve with what the options say of callers.
func serveWith(t testing.TB, idle bool, with Options) linkpb.LinkClient {
	t.Helper()
	return linkpb.NewLinkClient(connect(t, idle, with))
}

// connect is serveWith, for who makes calls that the client does not.
func connect(t testing.TB, idle bool, with Options) *grpc.ClientConn {
	t.Helper()
	ck := clock.Bubble()
	o := cell.Options{
		Store: memstore.NewDisk().Store(memstore.Options{Clock: ck, Sole: true}),
		Clock: ck, Name: "test", ActiveTTL: 3 * time.Second,
	}
	o.Node.ID, o.Node.Link = [16]byte{1}, "here"
	c := cell.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	if idle {
		ran <- nil
	} else {
		go func() { ran <- c.Run(ctx) }()
		<-c.Ready()
	}
	with.Clock, with.Version = ck, "1.2.3"
	s := New(c, with)
	g := grpc.NewServer(append(ServerOptions(), s.TapAdmission())...)
	s.Register(g)
	l := bufconn.Listen(1 << 20)
	go func() { _ = g.Serve(l) }()
	// Windows that do not grow: what a slow reader does not read stays with us.
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<20),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return conn
}

type clientStream = grpc.BidiStreamingClient[linkpb.ClientMessage, linkpb.ServerMessage]

func attach(t testing.TB, c linkpb.LinkClient, first *linkpb.ClientMessage) clientStream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	st, err := c.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if first != nil {
		if err := st.Send(first); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func hello() *linkpb.Hello {
	return &linkpb.Hello{Version: linkpb.Version, Generation: 1, TtlNano: int64(10 * time.Second)}
}

func recv(t testing.TB, st clientStream) *linkpb.ServerMessage {
	t.Helper()
	m, err := st.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGreetings(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*linkpb.Hello)
		refused string
	}{
		"ours":              {func(*linkpb.Hello) {}, ""},
		"the next version":  {func(h *linkpb.Hello) { h.Version = linkpb.Version + 1 }, ""},
		"the one after":     {func(h *linkpb.Hello) { h.Version = linkpb.Version + 2 }, "version 3"},
		"no version":        {func(h *linkpb.Hello) { h.Version = 0 }, "version 0"},
		"no generation":     {func(h *linkpb.Hello) { h.Generation = 0 }, "generation"},
		"a short id":        {func(h *linkpb.Hello) { h.Session = []byte("short") }, "session id of 5 bytes"},
		"a TTL too short":   {func(h *linkpb.Hello) { h.TtlNano = 1 }, "ttl"},
		"a negative TTL":    {func(h *linkpb.Hello) { h.TtlNano = -1 }, "ttl"},
		"the default TTL":   {func(h *linkpb.Hello) { h.TtlNano = 0 }, ""},
		"a label too long":  {func(h *linkpb.Hello) { h.Label = strings.Repeat("x", 257) }, "label"},
		"too much held":     {func(h *linkpb.Hello) { h.Held = make([]uint64, bounds.NamedMax+1) }, "8193 leases"},
		"too much wanted":   {func(h *linkpb.Hello) { h.Wanted = make([]uint64, bounds.NamedMax+1) }, "8193 leases and requests"},
		"a feature unknown": {func(h *linkpb.Hello) { h.Features = []string{"teleport"} }, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hello()
				c.change(h)
				m := recv(t, attach(t, serve(t, false), &linkpb.ClientMessage{Hello: h}))
				switch {
				case c.refused == "":
					w := m.Welcome
					if w == nil || len(w.Session) != 16 || w.Version != linkpb.Version || w.Cell == "" || w.Epoch != 1 || w.TtlNano == 0 {
						t.Errorf("answer: %v", m)
					}
				case m.Closed.GetReason() != linkpb.Reason_REASON_INVALID || !strings.Contains(m.Closed.Message, c.refused):
					t.Errorf("answer: %v", m)
				}
			})
		})
	}
}

func TestBrokenStreams(t *testing.T) {
	many := make([]*linkpb.Request, bounds.RequestsMax+1)
	for i := range many {
		many[i] = &linkpb.Request{Number: uint64(i + 1)}
	}
	for name, c := range map[string]struct {
		first, second *linkpb.ClientMessage
		code          codes.Code
	}{
		"no greeting":              {nil, nil, codes.DeadlineExceeded},
		"something else first":     {&linkpb.ClientMessage{Renewal: 1}, nil, codes.InvalidArgument},
		"two greetings":            {&linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Hello: hello()}, codes.InvalidArgument},
		"a request without number": {&linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Requests: []*linkpb.Request{{}}}, codes.InvalidArgument},
		"too many requests":        {&linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Requests: many}, codes.InvalidArgument},
		"too much to observe":      {&linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Observe: make([]string, bounds.RequestsMax+1)}, codes.InvalidArgument},
		"too much to observe not":  {&linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Unobserve: make([]string, bounds.RequestsMax+1)}, codes.InvalidArgument},
		"a huge message": {&linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Requests: []*linkpb.Request{
			{Number: 1, What: &linkpb.Request_Acquire{Acquire: &linkpb.Acquire{Names: []string{strings.Repeat("x", bounds.MessageMax)}}}},
		}}, codes.ResourceExhausted},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				st := attach(t, serve(t, false), c.first)
				if c.second != nil {
					recv(t, st)
					if err := st.Send(c.second); err != nil {
						t.Fatal(err)
					}
				}
				_, err := st.Recv()
				if status.Code(err) != c.code || time.Since(start) > GreetingMax {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// Who comes and says nothing is no greeting, and takes nobody's server away.
func TestStreamEndingBeforeGreetingIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		st := attach(t, c, nil)
		if err := st.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("it was told %v", err)
		}
		if m := recv(t, attach(t, c, &linkpb.ClientMessage{Hello: hello()})); m.GetWelcome() == nil {
			t.Errorf("the next one was told %v", m)
		}
	})
}

func TestUnknownRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := attach(t, serve(t, false), &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		if err := st.Send(&linkpb.ClientMessage{Requests: []*linkpb.Request{{Number: 7}}}); err != nil {
			t.Fatal(err)
		}
		r := recv(t, st).Replies
		if len(r) != 1 || r[0].Number != 7 || r[0].GetRefused().GetReason() != linkpb.Reason_REASON_INVALID {
			t.Errorf("replies %v", r)
		}
	})
}

func acquires(n int, name func(int) string) []*linkpb.Request {
	all := make([]*linkpb.Request, n)
	for i := range all {
		all[i] = &linkpb.Request{Number: uint64(i + 1), What: &linkpb.Request_Acquire{
			Acquire: &linkpb.Acquire{Names: []string{name(i)}},
		}}
	}
	return all
}

// What was asked in one message is answered in few, each request once.
func TestAnswersAreBatched(t *testing.T) {
	const n = 3000
	st := attach(t, serve(t, false), &linkpb.ClientMessage{Hello: hello()})
	recv(t, st)
	m := &linkpb.ClientMessage{Renewal: 1, Requests: acquires(n, func(i int) string { return fmt.Sprint("n", i) })}
	if err := st.Send(m); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]string{}
	var last uint64
	messages, renewal := 0, uint64(0)
	for len(seen) < n || renewal == 0 {
		m := recv(t, st)
		messages++
		renewal = max(renewal, m.Renewal)
		for _, r := range m.Replies {
			g := r.GetGranted()
			if g == nil {
				continue // waits for its token
			}
			if g.Token <= last || seen[r.Number] != "" || g.Fences[0].Fence != g.Token {
				t.Fatalf("reply %v after token %d", r, last)
			}
			seen[r.Number], last = g.Fences[0].Name, g.Token
		}
	}
	for i := range n {
		if seen[uint64(i+1)] != fmt.Sprint("n", i) {
			t.Fatalf("request %d was granted %q", i+1, seen[uint64(i+1)])
		}
	}
	if messages > n/10 {
		t.Errorf("%d answers came in %d messages", n, messages)
	}
}

// A client that asks and does not read is disconnected, and nobody else waits
// for it.
func TestSlowReaderIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		h := hello()
		h.TtlNano = int64(time.Hour) // it does not renew, and must not be over for that
		st := attach(t, c, &linkpb.ClientMessage{Hello: h})
		recv(t, st)
		name := strings.Repeat("x", 200)
		// An answer weighs more than 200 bytes. One burst can be on its way, and behind it
		// twice the outbox, before the stream must be cut. The sender is blocked then: how
		// the stream ended waits behind what is not read.
		const needed = (burstMax + 2*OutboxMax) / 200
		go func() {
			for i := range 2 * needed / 1000 {
				m := &linkpb.ClientMessage{FinishedBelow: uint64(i*1000 + 1), Requests: acquires(1000, func(int) string { return name })}
				for j, r := range m.Requests {
					r.Number = uint64(i*1000 + j + 1)
					r.GetAcquire().Try = true
				}
				if st.Send(m) != nil {
					break
				}
			}
		}()
		synctest.Wait()
		if _, err := c.List(context.Background(), &linkpb.ListRequest{}); err != nil {
			t.Error(err)
		}
		for {
			_, err := st.Recv()
			if err == nil {
				continue
			}
			if status.Code(err) != codes.ResourceExhausted || !strings.HasSuffix(err.Error(), "waiting to be read") {
				t.Errorf("one client that reads nothing is told %v", err)
			}
			return
		}
	})
}

func TestStandbyAnswersUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, true)
		m := recv(t, attach(t, c, &linkpb.ClientMessage{Hello: hello()}))
		if m.Closed.GetReason() != linkpb.Reason_REASON_UNAVAILABLE {
			t.Errorf("answer: %v", m)
		}
		if _, err := c.OpenSession(context.Background(), &linkpb.OpenSessionRequest{}); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		if s, err := c.Status(context.Background(), &linkpb.StatusRequest{}); err != nil || s.Active || s.Version != "1.2.3" {
			t.Errorf("status %v, %v", s, err)
		}
	})
}

func TestUnary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		ctx := context.Background()
		s, err := c.OpenSession(ctx, &linkpb.OpenSessionRequest{Label: "me"})
		if err != nil || s.TtlNano != int64(bounds.TTLDefault) {
			t.Fatalf("%v, %v", s, err)
		}
		if r, err := c.RenewSession(ctx, &linkpb.RenewSessionRequest{Session: s.Session}); err != nil || r.TtlNano != s.TtlNano {
			t.Errorf("%v, %v", r, err)
		}
		l, err := c.Acquire(ctx, &linkpb.AcquireRequest{Name: "x", Session: s.Session, RequestId: "one"})
		if err != nil || l.Token == 0 || l.Fence != l.Token || l.Cell == "" || l.Name != "x" {
			t.Fatalf("%v, %v", l, err)
		}
		if r, err := c.RenewLease(ctx, &linkpb.RenewLeaseRequest{Lease: l.Lease}); err != nil || r.TtlNano != s.TtlNano {
			t.Errorf("%v, %v", r, err)
		}
		for _, ttl := range []time.Duration{time.Minute, 2 * time.Second} {
			// By the lease, and then by its session without asking again.
			if r, err := c.RenewLease(ctx, &linkpb.RenewLeaseRequest{Lease: l.Lease, TtlNano: int64(ttl)}); err != nil || r.TtlNano != int64(ttl) {
				t.Errorf("%v: %v, %v", ttl, r, err)
			}
			if r, err := c.RenewSession(ctx, &linkpb.RenewSessionRequest{Session: s.Session}); err != nil || r.TtlNano != int64(ttl) {
				t.Errorf("%v: %v, %v", ttl, r, err)
			}
		}
		_, err = c.RenewSession(ctx, &linkpb.RenewSessionRequest{Session: s.Session, TtlNano: 1})
		if d := detail(t, err, codes.InvalidArgument); d.Reason != linkpb.Reason_REASON_INVALID {
			t.Errorf("out of bounds: %v", d)
		}

		_, err = c.Acquire(ctx, &linkpb.AcquireRequest{Name: "x", TtlNano: int64(5 * time.Second)})
		if d := detail(t, err, codes.FailedPrecondition); d.Reason != linkpb.Reason_REASON_HELD || d.Holder.GetToken() != l.Token || d.Holder.Label != "me" {
			t.Errorf("held: %v", d)
		}
		page, err := c.List(ctx, &linkpb.ListRequest{Prefix: "x"})
		if err != nil || len(page.Locks) != 1 || page.Locks[0].Holders[0].Token != l.Token {
			t.Errorf("%v, %v", page, err)
		}
		_, err = c.Break(ctx, &linkpb.BreakRequest{Name: "x", Token: l.Token + 1})
		if d := detail(t, err, codes.FailedPrecondition); d.Reason != linkpb.Reason_REASON_TOKEN_MISMATCH {
			t.Errorf("break: %v", d)
		}
		if r, err := c.Break(ctx, &linkpb.BreakRequest{Name: "x", Token: l.Token, Reason: "test"}); err != nil || r.Ended {
			t.Errorf("%v, %v", r, err)
		}
		if _, err := c.Release(ctx, &linkpb.ReleaseRequest{Lease: l.Lease}); err != nil {
			t.Error(err)
		}
		_, err = c.Release(ctx, &linkpb.ReleaseRequest{Lease: l.Lease})
		if d := detail(t, err, codes.NotFound); d.Reason != linkpb.Reason_REASON_GONE {
			t.Errorf("released twice: %v", d)
		}
		if st, err := c.Status(ctx, &linkpb.StatusRequest{}); err != nil || !st.Active || st.Sessions != 1 || st.Token < l.Token || st.ActiveLink != "here" {
			t.Errorf("%v, %v", st, err)
		}
		if _, err := c.CloseSession(ctx, &linkpb.CloseSessionRequest{Session: s.Session}); err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := c.Acquire(short, &linkpb.AcquireRequest{Name: "y", WaitNano: int64(time.Minute)}); err != nil {
			t.Error(err)
		}
		if _, err := c.Acquire(short, &linkpb.AcquireRequest{Name: "y", WaitNano: int64(time.Minute)}); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	})
}

func detail(t *testing.T, err error, code codes.Code) *linkpb.Refused {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v, expected %v", err, code)
	}
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*linkpb.RefusedDetail); ok {
			return r.Refused
		}
	}
	t.Fatalf("%v has no detail", err)
	return nil
}

// Every reason has a word on the wire and a code.
func TestReasons(t *testing.T) {
	words := map[linkpb.Reason]bool{}
	for _, r := range []locktable.Reason{
		locktable.Invalid, locktable.Unauthenticated, locktable.Denied, locktable.Gone, locktable.Held, locktable.Conflict,
		locktable.TokenMismatch, locktable.Exhausted, locktable.Unavailable, locktable.RolledBack, locktable.Cancelled,
	} {
		if w := wire.Reason(r); w == 0 || words[w] {
			t.Errorf("%s is %v on the wire", r, w)
		}
		words[wire.Reason(r)] = true
		if _, ok := statusCodes[r]; !ok {
			t.Errorf("%s has no gRPC code", r)
		}
	}
	if len(words)+1 != len(linkpb.Reason_name) {
		t.Errorf("%d of %d words are used", len(words), len(linkpb.Reason_name))
	}
}
