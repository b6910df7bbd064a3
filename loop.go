package pawl

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/session"
)

// op is what a caller puts into the loop's intake.
type op struct {
	call    *call
	observe *observer
	abandon bool
	close   time.Duration
	// overtaken is a lease whose guard says guardErr.
	overtaken *Lease
	guardErr  error
}

// opQueue gathers what callers ask until the loop takes it.
type opQueue struct {
	ready  chan struct{}
	mu     sync.Mutex
	ops    []op
	closed bool
}

func (i *opQueue) put(o op) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.ops = append(i.ops, o)
	select {
	case i.ready <- struct{}{}:
	default:
	}
	return true
}

// take returns what has gathered, in a slice that is the loop's until it gives
// it back with the next call.
func (i *opQueue) take(spare []op) []op {
	i.mu.Lock()
	defer i.mu.Unlock()
	ops := i.ops
	clear(spare)
	i.ops = spare[:0]
	return ops
}

func (i *opQueue) shut() []op {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	return i.ops
}

// run is the client's only goroutine that decides. It waits, passes events to the
// machine, and carries out its effects. It never blocks elsewhere, so a deadline is
// noticed in time. Its timer counts suspend: after a suspend it notices at once that
// its leases are over, and not when the rest of a renewal's interval has passed.
func (c *Client) run() {
	defer close(c.ended)
	timer := c.clock.NewAlarm()
	defer timer.Stop()
	var (
		ops   []op
		armed time.Duration // in the machine's time; 0: not
	)
	for {
		var first streamEvent
		select {
		case <-c.ops.ready:
			// Other callers that are about to ask can still do so: one turn and one message
			// serve them all.
			runtime.Gosched()
		case first = <-c.streamEvents:
		case <-timer.C():
			armed = 0
		}
		// The clock is read once a turn. A message that arrives later in the turn is
		// judged by this earlier reading. Renewals count from their sending, so this
		// moves no deadline.
		ops = c.ops.take(ops)
		c.machine.At(c.clock.Now())
		c.heard(first)
		c.hear()
		for _, o := range ops {
			c.perform(o)
		}
		c.machine.Tick()
		c.carryOut()
		if finished, _ := c.machine.Finished(); finished {
			c.end()
			return
		}
		_, now := c.machine.Now()
		if at := now + c.machine.Wake(); armed == 0 || at < armed {
			timer.Reset(at - now)
			armed = at
		}
	}
}

// hear hands on what the stream has delivered by now.
func (c *Client) hear() {
	for {
		select {
		case e := <-c.streamEvents:
			c.heard(e)
		default:
			return
		}
	}
}

// heard passes an event of a stream to the machine; the zero streamEvent is ignored.
func (c *Client) heard(e streamEvent) {
	switch {
	case e.cause != nil:
		c.machine.Disconnected(e.id, e.cause)
	case e.message != nil:
		c.machine.Heard(e.id, e.message)
	}
}

func (c *Client) perform(o op) {
	m := c.machine
	switch {
	case o.close != 0:
		if _, now := m.Now(); c.closeBy == 0 {
			c.closeBy = now + o.close
		}
		m.Close(o.close)
	case o.overtaken != nil:
		m.Overtaken(o.overtaken.of, o.guardErr)
	case o.observe != nil && o.abandon:
		m.Unobserve(o.observe, o.observe.name)
	case o.observe != nil:
		m.Observe(o.observe, o.observe.name)
	case o.abandon && o.call.kind == callTTL:
		m.GiveUpTTL(o.call)
	case o.abandon:
		m.GiveUp(o.call.request)
	default:
		c.begin(o.call)
	}
}

func (c *Client) begin(q *call) {
	m := c.machine
	switch q.kind {
	case callOpen:
		m.Open(q)
	case callAcquire:
		q.request = m.Acquire(q, &q.wants.AcquireSpec)
	case callRelease:
		m.Release(q, q.on.of)
	case callCheck:
		m.Check(q, q.on.of)
	case callTTL:
		m.SetTTL(q, q.ttl)
	}
}

// carryOut does what the machine wants, until it wants nothing more.
func (c *Client) carryOut() {
	for all := c.machine.Effects(); len(all) > 0; all = c.machine.Effects() {
		for i := range all {
			c.effect(&all[i])
		}
	}
	for m := c.machine.Message(); m != nil; m = c.machine.Message() {
		c.stream.put(m)
	}
	if why := c.machine.Trouble(); why != c.why {
		c.why = why
		trouble := errorOf(why)
		c.blockedBy.Store(&trouble)
	}
}

func (c *Client) effect(e *session.Effect) {
	switch e.Kind {
	case session.AnswerCall:
		e.Ref.(*call).answer(nil, errorOf(e.Cause))
	case session.GrantLease:
		q := e.Ref.(*call)
		l := c.newLease(q, e.Lease)
		if !q.answer(l, nil) {
			l.cancel(ErrReleased)
			c.machine.ReleaseUnclaimed(e.Lease)
		}
	case session.ReportBlocked:
		q := e.Ref.(*call)
		q.setBlocked(c.blocked(q, e.Cause))
	case session.EndLease:
		l := e.Lease.Of.(*Lease)
		l.end(e.Cause)
		l.endRide()
	case session.RequestRelease:
		e.Lease.Of.(*Lease).cancel(errorOf(e.Cause))
	case session.BeginRide:
		e.Lease.Of.(*Lease).beginRide(e.Interval)
	case session.EndRide:
		e.Lease.Of.(*Lease).endRide()
	case session.ExtendTrust:
		c.standing.extend(e.Deadline)
	case session.BeginSession:
		c.standing.end()
		c.standing = &standing{}
	case session.SessionOpened:
		if c.opened != nil {
			c.opened(c.machine.Session())
		}
	case session.CloseStream:
		if c.stream != nil {
			c.stream.cancel()
			c.stream = nil
		}
	case session.Dial:
		c.stream = c.open(e.Attempt)
	case session.PublishLeader:
		e.Ref.(*observer).set(e.Leader)
	case session.EndWatch:
		e.Ref.(*observer).end(errorOf(e.Cause))
	case session.EmitEvent:
		c.happen(e.Event)
	case session.TraceRequest:
		now, _ := c.machine.Now()
		e.Ref.(*call).trace.taken(e.Number, now)
	default:
		panic(fmt.Sprintf("pawl: a session wants %d done, which nobody knows", e.Kind))
	}
}

var eventKinds = map[session.EventKind]EventKind{
	session.Safe: Safe, session.Jeopardy: Jeopardy, session.Riding: Riding, session.Lost: Lost, session.RolledBack: StoreRolledBack,
}

func (c *Client) happen(e *session.Event) {
	c.post(Event{Kind: eventKinds[e.Kind], Remaining: e.Remaining, Leases: e.Leases, Err: errorOf(e.Cause)})
}

// post hands an event to who reads events, and to the log.
func (c *Client) post(e Event) {
	post(c.events, e)
	if c.log != nil {
		post(c.log, e)
	}
}

// end answers what is still asked, and waits for the goroutines of streams.
func (c *Client) end() {
	for _, o := range c.ops.shut() {
		c.perform(o)
	}
	c.carryOut()
	c.streams.Wait()
	c.waitReaders()
	close(c.events)
	if c.log != nil {
		close(c.log)
	}
}

// partReaders is the least time that those who look at marks have to end.
const partReaders = 20 * time.Millisecond

// waitReaders waits for those who look at marks. Their contexts have ended, but a guard is
// somebody else's code, and may not heed that.
func (c *Client) waitReaders() {
	over := make(chan struct{})
	go func() {
		c.readers.Wait()
		close(over)
	}()
	timer := c.clock.NewTimer()
	defer timer.Stop()
	_, now := c.machine.Now()
	timer.Reset(max(c.closeBy-now, partReaders))
	select {
	case <-over:
	case <-timer.C():
	}
}

// logEvents writes events to a log, which may block.
func logEvents(log *slog.Logger, events <-chan Event) {
	for e := range events {
		level := slog.LevelWarn
		if e.Kind == Safe {
			level = slog.LevelInfo
		}
		attrs := []any{"event", e.Kind.String(), "leases", e.Leases, "remaining", e.Remaining}
		if e.Err != nil {
			attrs = append(attrs, "error", e.Err)
		}
		log.Log(context.Background(), level, "pawl: session", attrs...)
	}
}
