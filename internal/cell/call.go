package cell

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// call is a request without a stream: it waits for one answer.
type call struct {
	answer chan locktable.Answer
	state  atomic.Int32
	// trace is that of the answer, when one was asked for.
	trace *Trace
	// queued belongs to the intake.
	queued queued
	// late takes an answer that came when nobody waited any more.
	late func(locktable.Answer)
}

// queued is the acquire of a call that waits in the intake to be decided. It is nil
// when nobody wants it decided any more; queue is nil when it does not wait.
type queued struct {
	acquire locktable.Command
	queue   *identityQueue
	bytes   int
}

const (
	callWaits int32 = iota
	callAnswered
	callAbandoned
)

func newCall() *call { return &call{answer: make(chan locktable.Answer, 1)} }

// Receive takes the answer. Waiting is not one.
func (x *call) Receive(_ uint64, a locktable.Answer) {
	if _, waiting := a.(locktable.Waiting); waiting {
		return
	}
	if t, traced := a.(Traced); traced {
		a, x.trace = t.Answer, &t.Trace
	}
	if x.state.CompareAndSwap(callWaits, callAnswered) {
		x.answer <- a
	} else if x.late != nil {
		x.late(a)
	}
}

// Gone implements step.Droppable. An answer that comes too late is not dropped where
// late takes it.
func (x *call) Gone(locktable.Answer) bool {
	return x.late == nil && x.state.Load() == callAbandoned
}

// abandon says that nobody waits any more; false: the answer is there.
func (x *call) abandon() bool { return x.state.CompareAndSwap(callWaits, callAbandoned) }

// enter registers a call with the tenure, so that it is told when that ends.
func (c *Cell) enter(x *call) *tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.calls[x] = struct{}{}
	}
	return c.now
}

func (c *Cell) forgetCall(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, x)
}

// ask submits a command that is never refused for want of room and waits for
// its answer. make is given the call to be answered.
func (c *Cell) ask(ctx context.Context, make func(ref locktable.Ref) locktable.Command) (locktable.Answer, error) {
	return c.askBy(ctx, newCall(), 1, make)
}

// askBy is ask with a call and with what the command weighs beside others.
func (c *Cell) askBy(ctx context.Context, x *call, weight int, make func(ref locktable.Ref) locktable.Command) (locktable.Answer, error) {
	t := c.enter(x)
	defer c.forgetCall(x)
	if t == nil {
		return nil, c.unavailable()
	}
	identity := callerOf(ctx)
	if !t.intake.reserve(ctx, identity, weight) {
		return nil, ctx.Err()
	}
	if !t.intake.addOf(identity, weight, make(x)) {
		return nil, c.unavailable()
	}
	late := c.o.Clock.NewTimer()
	defer late.Stop()
	late.Reset(c.answerMax())
	select {
	case a := <-x.answer:
		return a, c.errorOf(a)
	case <-late.C():
		x.abandon()
		return nil, c.unanswered()
	case <-ctx.Done():
		x.abandon()
		return nil, ctx.Err()
	}
}

// answerMax bounds how long a caller waits for a decision to become final. When the
// store has been silent for that long, another server may be active, and a promise made
// now would have run out by the time it arrives.
func (c *Cell) answerMax() time.Duration { return 2 * c.o.ActiveTTL }

func (c *Cell) unanswered() *RefusedError {
	return c.refused(locktable.Refused{
		Reason: locktable.Unavailable, Message: "the store does not answer; what was asked for may be done or not" + c.alsoWaits(),
	})
}

func (c *Cell) unavailable() *RefusedError {
	return c.refused(locktable.Refused{Reason: locktable.Unavailable, Message: c.notActive()})
}

func (c *Cell) refused(r locktable.Refused) *RefusedError {
	e := &RefusedError{Refused: r}
	switch r.Reason {
	case locktable.Unavailable:
		e.ActiveLink = c.Info().ActiveLink
	case locktable.Exhausted:
		e.RetryAfter = retryAfter
	}
	return e
}

// errorOf is nil unless the answer is a refusal.
func (c *Cell) errorOf(a locktable.Answer) error {
	if r, no := a.(locktable.Refused); no {
		return c.refused(r)
	}
	return nil
}
