package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

func secretOf(who string) string { return "pawl_" + who + strings.Repeat("-", 32) }

// as sends somebody's credential.
func as(ctx context.Context, who string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secretOf(who))
}

func policyOf(t testing.TB, people map[string][]access.Grant) *access.Policy {
	t.Helper()
	var all []access.Entry
	for name, grants := range people {
		all = append(all, access.Entry{
			Identity:    access.NewIdentity(name, access.Limits{Streams: 2}, grants...),
			Credentials: []access.Digest{access.DigestOf(secretOf(name))},
		})
	}
	p, err := access.NewPolicy(all...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func people() map[string][]access.Grant {
	return map[string][]access.Grant{
		"a":   {{Prefix: "a/", Rights: []access.Right{access.Read, access.Hold}}},
		"b":   {{Prefix: "b/", Rights: []access.Right{access.Hold}}, {Prefix: "a/both", Rights: []access.Right{access.Hold}}},
		"eye": {{Prefix: "a/", Rights: []access.Right{access.Read}}},
	}
}

// auditRecorder is an audit log.
type auditRecorder struct {
	mu      sync.Mutex
	records []access.AuditRecord
}

func (s *auditRecorder) Writable() bool { return true }

func (s *auditRecorder) Record(d access.AuditRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, d)
}

func (s *auditRecorder) find(verb, outcome string) (access.AuditRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.records, func(d access.AuditRecord) bool { return d.Verb == verb && d.Outcome == outcome })
	if i < 0 {
		return access.AuditRecord{}, false
	}
	return s.records[i], true
}

// open begins a stream of somebody's, with the greeting and what is sent behind
// it without waiting.
func open(t testing.TB, c linkpb.LinkClient, who string, all ...*linkpb.ClientMessage) clientStream {
	t.Helper()
	ctx, cancel := context.WithCancel(as(context.Background(), who))
	t.Cleanup(cancel)
	st, err := c.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := st.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func tries(number uint64, names ...string) *linkpb.ClientMessage {
	return &linkpb.ClientMessage{Requests: []*linkpb.Request{{
		Number: number, What: &linkpb.Request_Acquire{Acquire: &linkpb.Acquire{Names: names, Try: true}},
	}}}
}

// answer is the reply to a request, once it does not wait any more.
func answer(t testing.TB, st clientStream, number uint64) *linkpb.Reply {
	t.Helper()
	for {
		for _, r := range recv(t, st).Replies {
			if r.Number == number && r.GetWaiting() == nil {
				return r
			}
		}
	}
}

func TestStreamHasRightsOfItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &auditRecorder{}
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people())), Audit: notes})
		a := open(t, c, "a", &linkpb.ClientMessage{Hello: hello()})
		recv(t, a)
		for number, x := range []struct {
			names  []string
			denied bool
		}{{[]string{"a/1"}, false}, {[]string{"b/1"}, true}, {[]string{"a/2", "b/2"}, true}, {[]string{"a/2", "a/3"}, false}} {
			n := uint64(number + 1)
			if err := a.Send(tries(n, x.names...)); err != nil {
				t.Fatal(err)
			}
			if r := answer(t, a, n); (r.GetRefused().GetReason() == linkpb.Reason_REASON_DENIED) != x.denied || (r.GetGranted() == nil) != x.denied {
				t.Errorf("%q: %v", x.names, r)
			}
		}
		granted, _ := notes.find("acquire", "granted")
		denied, ok := notes.find("acquire", "denied")
		if !ok || denied.Identity != "a" || denied.Names[0] != "b/1" || granted.Token == 0 || granted.Handle == "" {
			t.Errorf("noted: %+v and %+v", granted, denied)
		}
		// Who may not read is not told who holds.
		if err := a.Send(tries(9, "a/both")); err != nil {
			t.Fatal(err)
		}
		answer(t, a, 9)
		b := open(t, c, "b", &linkpb.ClientMessage{Hello: hello()})
		recv(t, b)
		if err := b.Send(tries(1, "a/both")); err != nil {
			t.Fatal(err)
		}
		if r := answer(t, b, 1).GetRefused(); r.GetReason() != linkpb.Reason_REASON_HELD || r.Holder != nil {
			t.Errorf("held, for who may not read: %v", r)
		}
		// Observing is refused for one name, and goes on for the other.
		eye := open(t, c, "eye", &linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Observe: []string{"b/1", "a/1"}})
		told := map[string]*linkpb.Observed{}
		for len(told) < 2 {
			for _, o := range recv(t, eye).Observed {
				told[o.Name] = o
			}
		}
		if o := told["b/1"]; o.Reason != linkpb.Reason_REASON_DENIED || o.Token != 0 {
			t.Errorf("of a name that may not be read: %v", o)
		}
		if o := told["a/1"]; o.Reason != 0 || o.Token == 0 {
			t.Errorf("of one that may: %v", o)
		}
	})
}

func TestStreamNeedsCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people()))})
		// Nothing is sent: that fails where the refusal comes first.
		without, err := c.Attach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range []clientStream{without, open(t, c, "stranger")} {
			if m, err := st.Recv(); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%v, %v", m, err)
			}
		}
	})
}

// A stream with the id of another identity's session is answered as if there were none.
// None of its requests reaches the session, whether the session's own stream is
// connected or not.
func TestSessionOfOtherIdentityIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people()))})
		ctx, cancel := context.WithCancel(as(context.Background(), "a"))
		own, err := c.Attach(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Send(&linkpb.ClientMessage{Hello: hello()}); err != nil {
			t.Fatal(err)
		}
		session := recv(t, own).Welcome.Session
		if err := own.Send(tries(1, "a/1")); err != nil {
			t.Fatal(err)
		}
		token := answer(t, own, 1).GetGranted().Token
		strike := func(when string) {
			for generation := uint64(1); generation < 4; generation++ {
				h := hello()
				h.Session, h.Generation = session, generation
				st := open(t, c, "b", &linkpb.ClientMessage{Hello: h, FinishedBelow: 100, Renewal: 7},
					&linkpb.ClientMessage{Requests: []*linkpb.Request{{Number: 2, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: token}}}}},
					tries(3, "b/1"), &linkpb.ClientMessage{Close: true})
				m := recv(t, st)
				if m.Closed.GetReason() != linkpb.Reason_REASON_GONE || m.Welcome != nil || len(m.Replies) != 0 || m.Renewal != 0 {
					t.Errorf("%s, generation %d: %v", when, generation, m)
				}
			}
		}
		strike("while it is up")
		cancel()
		synctest.Wait()
		strike("while it is away")
		h := hello()
		h.Session, h.Generation, h.Held = session, 2, []uint64{token}
		back := recv(t, open(t, c, "a", &linkpb.ClientMessage{Hello: h}))
		if back.Welcome == nil || len(back.Welcome.Lost) != 0 {
			t.Errorf("its own: %v", back)
		}
	})
}

// Streams are ended when the file says other things of their identity, and what
// is left to them they have in the next one.
func TestChangedRightsEndStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := access.NewGate(policyOf(t, people()))
		c := serveWith(t, false, Options{Gate: gate})
		streams := map[string]clientStream{}
		for _, who := range []string{"a", "b", "eye"} {
			streams[who] = open(t, c, who, &linkpb.ClientMessage{Hello: hello()})
			recv(t, streams[who])
		}
		next := people()
		delete(next, "b")
		next["a"] = next["a"][:0]
		if n := gate.Set(policyOf(t, next)); n != 2 {
			t.Errorf("%d were put out", n)
		}
		for who, code := range map[string]codes.Code{"a": codes.Unavailable, "b": codes.Unauthenticated} {
			if _, err := streams[who].Recv(); status.Code(err) != code {
				t.Errorf("%s: %v, expected %v", who, err, code)
			}
		}
		if err := streams["eye"].Send(&linkpb.ClientMessage{Renewal: 2}); err != nil {
			t.Fatal(err)
		}
		if m := recv(t, streams["eye"]); m.Renewal != 2 {
			t.Errorf("one whose rights are the same: %v", m)
		}
	})
}

func TestStreamsPerIdentityAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people()))})
		for range 2 {
			recv(t, open(t, c, "a", &linkpb.ClientMessage{Hello: hello()}))
		}
		if _, err := open(t, c, "a").Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a third of two: %v", err)
		}
		if m := recv(t, open(t, c, "b", &linkpb.ClientMessage{Hello: hello()})); m.Welcome == nil {
			t.Errorf("another identity: %v", m)
		}
	})
}

// A stream that came by a certificate ends with it.
func TestStreamEndsWithCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := access.NewPolicy(access.Entry{Identity: access.NewIdentity("m", access.Limits{}), Certificates: []string{"cn:m"}})
		if err != nil {
			t.Fatal(err)
		}
		gate := access.NewGate(p)
		s := New(cell.New(cell.Options{Clock: clock.Bubble()}), Options{Clock: clock.Bubble(), Gate: gate})
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "m"}, NotAfter: time.Now().Add(time.Hour)}
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{
			VerifiedChains: [][]*x509.Certificate{{cert}},
		}}})
		d, err := s.admit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		over, stop := d.expiry()
		defer stop()
		time.Sleep(time.Hour - time.Second) // the bubble's
		select {
		case <-over:
			t.Error("over before its time")
		default:
		}
		time.Sleep(2 * time.Second)
		select {
		case <-over:
		default:
			t.Error("it goes on")
		}
	})
}

// greeter is the server's side of a stream whose client says its greeting and no more.
type greeter struct {
	attachStream
	ctx     context.Context
	greeted atomic.Bool
	welcome chan *linkpb.ServerMessage
}

func (g *greeter) Context() context.Context { return g.ctx }

func (g *greeter) RecvMsg(m any) error {
	if g.greeted.CompareAndSwap(false, true) {
		b, err := proto.Marshal(&linkpb.ClientMessage{Hello: hello()})
		m.(*Undecoded).bytes = mem.BufferSlice{mem.SliceBuffer(b)}
		return err
	}
	<-g.ctx.Done()
	return g.ctx.Err()
}

func (g *greeter) Send(m *linkpb.ServerMessage) error {
	g.welcome <- m
	return nil
}

// A stream on which nothing more is said ends with its certificate, too.
func TestSilentStreamEndsWithItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := clock.Bubble()
		o := cell.Options{Store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), Clock: k, Name: "test"}
		o.Node.ID = [16]byte{1}
		c := cell.New(o)
		ran := make(chan error)
		go func() { ran <- c.Run(ctx) }()
		defer func() {
			cancel()
			<-ran
		}()
		<-c.Ready()
		p, err := access.NewPolicy(access.Entry{
			Identity:     access.NewIdentity("m", access.Limits{}, access.Grant{Rights: []access.Right{access.Hold}}),
			Certificates: []string{"cn:m"},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := New(c, Options{Clock: k, Gate: access.NewGate(p)})
		const left = 5 * time.Second // less than the TTL
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "m"}, NotAfter: time.Now().Add(left)}
		reading, closed := context.WithCancel(peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{
			VerifiedChains: [][]*x509.Certificate{{cert}},
		}}}))
		defer closed()
		st := &greeter{ctx: reading, welcome: make(chan *linkpb.ServerMessage, 8)}
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- s.Attach(st) }()
		if m := <-st.welcome; m.Welcome == nil {
			t.Fatalf("the greeting is answered by %v", m)
		}
		select {
		case err := <-ended:
			if status.Code(err) != codes.Unauthenticated || time.Since(begun) != left {
				t.Errorf("it ended after %v: %v", time.Since(begun), err)
			}
		case <-time.After(time.Hour):
			t.Error("it goes on after its certificate")
		}
	})
}

// What is asked on a stream is decided without an allocation.
func TestStreamDecisionAllocatesNothing(t *testing.T) {
	gate := access.NewGate(policyOf(t, people()))
	s := New(cell.New(cell.Options{Clock: clock.System()}), Options{Clock: clock.System(), Gate: gate})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+secretOf("a")))
	d, err := s.admit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a/1", "a/2"}
	if n := testing.AllocsPerRun(100, func() {
		i := d.caller.Identity()
		kept, denied := s.service.Observable(i, d.caller.Remote, names)
		if s.service.AcquireRefusal(i, names) != nil || len(kept) != 2 || len(denied) != 0 {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Who may hold nothing was never granted a token, and cannot push the counter.
func TestTokenReportNeedsHoldRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people()))})
		cell := recv(t, open(t, c, "a", &linkpb.ClientMessage{Hello: hello()})).Welcome.Cell
		for _, who := range []string{"eye", "a"} {
			h := hello()
			// Ahead of the clock by less than a day.
			h.Cell, h.HighestToken = cell, uint64(time.Now().Add(time.Hour).Unix())<<20
			if w := recv(t, open(t, c, who, &linkpb.ClientMessage{Hello: h})).Welcome; w.GetRolledBack() != (who == "a") {
				t.Errorf("%s: %v", who, w)
			}
		}
	})
}

// Whatever a client does with the numbers of its requests, every grant has its line,
// with what was granted.
func TestEveryGrantIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &auditRecorder{}
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people())), Audit: notes})
		first := open(t, c, "a", &linkpb.ClientMessage{Hello: hello()}, tries(1, "a/1"))
		token := answer(t, first, 1).GetGranted().Token
		second := open(t, c, "a", &linkpb.ClientMessage{Hello: hello()})
		waits := tries(7, "a/1")
		waits.Requests[0].GetAcquire().Try = false
		again := tries(7, "b/denied")
		for _, m := range []*linkpb.ClientMessage{waits, again, tries(7, "a/other"), again, {
			Requests: []*linkpb.Request{{Number: 7, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: 1}}}},
		}} {
			if err := second.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := first.Send(&linkpb.ClientMessage{Requests: []*linkpb.Request{{
			Number: 2, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: token}},
		}}}); err != nil {
			t.Fatal(err)
		}
		for granted := false; !granted; {
			for _, r := range recv(t, second).Replies {
				granted = granted || r.GetGranted() != nil
			}
		}
		traced := tries(8, "a/2")
		traced.Requests[0].Trace = true
		if err := second.Send(traced); err != nil {
			t.Fatal(err)
		}
		answer(t, second, 8)
		var granted []string
		notes.mu.Lock()
		defer notes.mu.Unlock()
		for _, d := range notes.records {
			if d.Outcome == "granted" && d.Token != 0 {
				granted = append(granted, d.Names...)
			}
			if d.Outcome == "" {
				t.Errorf("nothing is said of what came of %+v", d)
			}
		}
		if !slices.Equal(granted, []string{"a/1", "a/1", "a/2"}) {
			t.Errorf("the grants that are noted are of %q", granted)
		}
	})
}
