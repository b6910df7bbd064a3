package pawl

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/session"
)

// An answer that was there before its caller gave up is the caller's: a lease in it would
// be nobody's otherwise.
func TestAnswerBeforeCancelIsTaken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		c, l := newCall(callAcquire), &Lease{}
		if !c.answer(l, nil) || c.giveUp() {
			t.Fatal("an answered call is given up")
		}
		if got, err, given := c.wait(ctx); got != l || err != nil || given {
			t.Fatalf("the answer is lost: %v, %v, given up %t", got, err, given)
		}
	}
	c := newCall(callAcquire)
	if _, _, given := c.wait(ctx); !given || c.answer(&Lease{}, nil) {
		t.Error("a call that was given up is answered")
	}
}

// What kept a call is told no more when nothing does.
func TestReasonOfWaitIsForgotten(t *testing.T) {
	c := newCall(callAcquire)
	c.setBlocked(ErrExhausted)
	if met := c.blockedBy.Load(); met == nil || !errors.Is(*met, ErrExhausted) {
		t.Fatal("it is not told what keeps the call")
	}
	c.setBlocked(nil)
	if met := c.blockedBy.Load(); met != nil {
		t.Errorf("in the queue it is still told %v", *met)
	}
}

// A call that comes while the loop ends is answered by its last act, and one that comes
// later is not taken in.
func TestCallsDuringCloseAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{
			machine: session.New(session.Settings{Servers: []string{"a"}, TTL: time.Second}, clock.Reading{}),
			clock:   clock.System(),
			ops:     opQueue{ready: make(chan struct{}, 1)}, events: make(chan Event, eventsKept), standing: &standing{},
		}
		c.machine.Close(time.Second)
		c.carryOut()
		late := newCall(callOpen)
		if !c.submit(op{call: late}) {
			t.Fatal("the loop has not ended yet")
		}
		c.end()
		select {
		case <-late.done:
			if !errors.Is(late.err, ErrClosed) {
				t.Errorf("answered %v", late.err)
			}
		default:
			t.Error("a call that came while the loop ended waits for ever")
		}
		if c.submit(op{call: newCall(callOpen)}) {
			t.Error("a call that nobody will answer is taken in")
		}
	})
}

// A caller that wakes up because a lease's context ended finds the lease ended.
func TestLeaseHasEndedWhenItsContextDoes(t *testing.T) {
	for _, why := range []*session.Cause{{Kind: session.Released}, {Kind: session.ClientClosed}, {Kind: session.DeadlinePassed}, {Kind: session.Broken}} {
		told := false
		l := &Lease{}
		l.cancel = func(error) {
			told = true
			if state, _ := l.state(); state == leaseHeld {
				t.Errorf("kind %d: the lease is held", why.Kind)
			}
		}
		l.end(why)
		if !told {
			t.Errorf("kind %d: the context goes on", why.Kind)
		}
	}
}

// What a server refuses is said in its own words; what else goes wrong is the network's.
func TestStreamRefusalTextIsKept(t *testing.T) {
	for code, want := range map[codes.Code]linkpb.Reason{
		codes.Unauthenticated:   linkpb.Reason_REASON_UNAUTHENTICATED,
		codes.PermissionDenied:  linkpb.Reason_REASON_DENIED,
		codes.ResourceExhausted: linkpb.Reason_REASON_EXHAUSTED,
	} {
		why := explain(&session.Attempt{Server: "a:1"}, status.Error(code, "because"))
		if !why.Is(want) || why.Refused.Message != "because" {
			t.Errorf("%v: %+v", code, why)
		}
	}
	if why := explain(&session.Attempt{Server: "a:1"}, status.Error(codes.Unavailable, "gone")); why.Kind != session.NetworkError {
		t.Errorf("a network that fails: %+v", why)
	}
}
