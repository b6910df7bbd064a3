package pawl

import (
	"sync"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
)

// tracer follows the acquires of a client that was dialled for it, which no
// program of a user is: others have none, and read no clock for it.
type tracer struct {
	clock  clock.Clock
	report func(hook.Trace)

	mu sync.Mutex
	// open are the traces whose request has its number.
	open map[uint64]*trace
}

// trace is what is known of one acquire.
type trace struct {
	of     *tracer
	number uint64
	ended  bool
	at     hook.Trace
}

func newTracer(k clock.Clock, tell func(hook.Trace)) *tracer {
	return &tracer{clock: k, report: tell, open: map[uint64]*trace{}}
}

func (t *tracer) begin() *trace { return &trace{of: t, at: hook.Trace{Asked: t.clock.Now()}} }

// taken notes that the loop asks the server, under this number. It may do so
// again, after a stream broke: what counts is the last time.
func (x *trace) taken(number uint64, now clock.Reading) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.ended {
		return
	}
	delete(x.of.open, x.number)
	x.number, x.at.Taken = number, now
	x.of.open[number] = x
}

// sending notes the requests of a message that is about to be sent.
func (t *tracer) sending(m *linkpb.ClientMessage) {
	for _, r := range m.Requests {
		if r.Trace {
			t.note(r.Number, func(at *hook.Trace, now clock.Reading) { at.Sent = now })
		}
	}
}

// heard notes the answers of a message that was received.
func (t *tracer) heard(m *linkpb.ServerMessage) {
	for _, r := range m.Replies {
		if r.GetGranted() != nil {
			t.note(r.Number, func(at *hook.Trace, now clock.Reading) { at.Received, at.Server = now, r.Trace })
		}
	}
}

func (t *tracer) note(number uint64, what func(*hook.Trace, clock.Reading)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.open[number]; x != nil {
		what(&x.at, t.clock.Now())
	}
}

// end notes that the caller has its answer, and tells the trace of a lease.
func (x *trace) end(granted bool) {
	x.of.mu.Lock()
	delete(x.of.open, x.number)
	x.ended = true
	x.at.Handed = x.of.clock.Now()
	at := x.at
	x.of.mu.Unlock()
	if granted {
		x.of.report(at)
	}
}
