package link

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/locktable"
)

// A call takes up what it has said of its message so far. One that does not come
// to an end with it is ended; one that waits for its turn is not.
func TestIncompleteCallTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, with := range map[string]Options{
			"without an auth file": {},
			"with one":             {Gate: access.NewGate(policyOf(t, people()))},
		} {
			conn := connect(t, false, with)
			ctx, cancel := context.WithCancel(as(context.Background(), "a"))
			defer cancel()
			c := linkpb.NewLinkClient(conn)
			if _, err := c.Acquire(ctx, &linkpb.AcquireRequest{Name: "a/1", TtlNano: int64(time.Hour)}); err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() {
				_, err := c.Acquire(ctx, &linkpb.AcquireRequest{Name: "a/1", WaitNano: int64(time.Minute)})
				waited <- err
			}()
			begun := time.Now()
			silent, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, linkpb.Link_Status_FullMethodName)
			if err != nil {
				t.Fatal(err)
			}
			err = silent.RecvMsg(new(linkpb.StatusResponse))
			if status.Code(err) != codes.Canceled || time.Since(begun) != GreetingMax {
				t.Errorf("%s: a call that says nothing: %v after %v", what, err, time.Since(begun))
			}
			if err := <-waited; status.Code(err) != codes.FailedPrecondition || time.Since(begun) < time.Minute {
				t.Errorf("%s: a call that waits for its turn: %v after %v", what, err, time.Since(begun))
			}
		}
	})
}

// Streams that read nothing are cut when too much waits for all of their identity,
// and what waited is forgotten with them.
func TestUnreadAnswersPerIdentityAreBounded(t *testing.T) {
	s := &Server{}
	long := locktable.Refused{Message: strings.Repeat("x", 1<<20)}
	var all []*outbox
	piled := func(identity string, n int) *outbox {
		o := newOutbox()
		o.budget = s.unreadOf(identity)
		o.take(nil) // something is being sent
		for range n {
			o.Receive(1, long)
		}
		all = append(all, o)
		return o
	}
	cut := func(o *outbox) bool {
		select {
		case <-o.overflow:
			return true
		default:
			return false
		}
	}
	for range UnreadMax>>20/3 + 1 {
		if o := piled("a", 3); cut(o) && !o.budget.over() {
			t.Fatal("a stream was cut while there was room")
		}
	}
	if o := piled("a", 1); !cut(o) || !o.budget.full() {
		t.Error("a stream of an identity for which too much waits was not cut")
	}
	for _, who := range []string{"b", ""} {
		if o := piled(who, 3); cut(o) || o.budget.full() {
			t.Errorf("a stream of %q was cut", who)
		}
	}
	for _, o := range all {
		o.written(1 << 20)
		o.close()
		o.Receive(1, long)
	}
	for _, who := range []string{"a", "b", ""} {
		if n := s.unreadOf(who).bytes.Load(); n != 0 {
			t.Errorf("%d bytes of %q wait when all are gone", n, who)
		}
	}
}

// Streams of an identity without the right to hold come and go as fast as they are asked for,
// and are not worth a line each; those of others are.
func TestSessionsWithoutHoldRightShareLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &auditRecorder{}
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people())), Audit: notes})
		for who, idle := range map[string]bool{"a": false, "eye": true} {
			st := open(t, c, who, &linkpb.ClientMessage{Hello: hello()}, &linkpb.ClientMessage{Close: true})
			for {
				if m := recv(t, st); m.Closed != nil {
					break
				}
			}
			for _, verb := range []string{"attach", "close"} {
				notes.mu.Lock()
				found := slices.ContainsFunc(notes.records, func(d access.AuditRecord) bool {
					return d.Identity == who && d.Verb == verb && d.Outcome == "done" && d.Idle == idle
				})
				notes.mu.Unlock()
				if !found {
					t.Errorf("%s, %s: %+v", who, verb, notes.records)
				}
			}
		}
	})
}

// A holder without a stream learns by its renewals that it is asked to let go, and why.
func TestRenewalReportsReleaseRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		l, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: "n", TtlNano: int64(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range []bool{false, true} {
			if asked {
				if _, err := c.Break(t.Context(), &linkpb.BreakRequest{Name: "n", Token: l.Token, Reason: "move"}); err != nil {
					t.Fatal(err)
				}
			}
			r, err := c.RenewLease(t.Context(), &linkpb.RenewLeaseRequest{Lease: l.Lease})
			if err != nil || r.Breaking != asked || (r.Reason == "move") != asked {
				t.Errorf("asked to let go, %t: %v, %v", asked, r, err)
			}
		}
	})
}
