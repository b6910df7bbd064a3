package link

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/wire"
)

// large is an answer of somewhat more than a MiB.
var large = locktable.Refused{Message: strings.Repeat("x", 1<<20)}

// cut reports whether a stream was told that too much waits for it.
func (o *outbox) cut() bool {
	select {
	case <-o.overflow:
		return true
	default:
		return false
	}
}

// What counts against a stream is what gathers while a portion is being sent, and no
// portion that was taken before.
func TestOutboxCountsBacklogOnly(t *testing.T) {
	o := newOutbox()
	for range 3 {
		o.Receive(1, large)
	}
	o.take(nil)
	for range 3 {
		o.Receive(1, large)
	}
	if o.cut() {
		t.Error("a stream was cut for answers that have been taken from its outbox")
	}
	o.take(nil)
	o.sent()
	for range OutboxMax >> 20 {
		o.Receive(1, large)
	}
	if o.cut() {
		t.Error("a stream was cut for a burst while nothing was being sent")
	}
	o.take(nil)
	for range OutboxMax >> 20 {
		o.Receive(1, large)
	}
	if !o.cut() {
		t.Error("more than OutboxMax piled up behind a portion, and the stream was not cut")
	}
}

// A stream for which little waits is not cut for what others of its identity leave
// unread.
func TestReadingStreamIsNotCutForSiblings(t *testing.T) {
	s := &Server{}
	of := func() *outbox {
		o := newOutbox()
		o.budget = s.unreadOf("a")
		return o
	}
	for range UnreadMax >> 20 {
		of().Receive(1, large)
	}
	o := of()
	if !o.budget.over() {
		t.Fatal("less waits than may")
	}
	o.take(nil)
	o.Receive(1, locktable.Done{})
	if o.cut() {
		t.Error("a stream was cut for what others have not read")
	}
}

// The unread bytes of a stream are returned to the identity's budget once: when its
// answers are sent, or when it ends.
func TestUnreadBytesAreReturnedOnce(t *testing.T) {
	s := &Server{}
	first, second := newOutbox(), newOutbox()
	first.budget, second.budget = s.unreadOf("a"), s.unreadOf("a")
	first.Receive(1, large)
	second.Receive(1, large)
	first.close()
	first.written(wire.Weight(large))
	if n := s.unreadOf("a").bytes.Load(); n != int64(wire.Weight(large)) {
		t.Errorf("%d unread bytes are counted for an answer of %d", n, wire.Weight(large))
	}
}

// sink is a stream of which only the sending side is used.
type sink struct {
	attachStream
	ctx  context.Context
	sent int
}

func (s *sink) Context() context.Context { return s.ctx }

func (s *sink) Send(*linkpb.ServerMessage) error {
	s.sent++
	return nil
}

// Answers that have been sent are not counted any more, although their stream goes on.
func TestSentAnswersLeaveTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{o: Options{Clock: clock.Bubble()}}
		o := newOutbox()
		o.budget = s.unreadOf("a")
		ctx, cancel := context.WithCancel(t.Context())
		st := &sink{ctx: ctx}
		ended := make(chan error)
		go func() { ended <- s.send(st, nil, o, nil) }()
		for range 3 {
			o.Receive(1, locktable.Done{})
			synctest.Wait()
		}
		if n := o.budget.bytes.Load(); n != 0 {
			t.Errorf("%d unread bytes are counted after %d messages were sent", n, st.sent)
		}
		cancel()
		if err := <-ended; err != nil || st.sent != 3 {
			t.Errorf("%d messages, %v", st.sent, err)
		}
	})
}
