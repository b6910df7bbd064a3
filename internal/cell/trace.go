package cell

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
)

// tracesMax bounds the acquires that are traced at the same time. The oldest is
// forgotten: it is answered as if nobody had asked for a trace.
const tracesMax = 16

// Trace tells when an acquire was where, by this server's clock alone. Closed,
// Appending and Landed are of the batch that its answer waited for; the two of
// the store are zero when that batch was on its way before.
type Trace struct {
	Received, Queued, Taken, Decided, Closed, Appending, Landed, Final clock.Reading
}

// Traced is what an acquire was granted that asked for a trace.
type Traced struct {
	locktable.Answer
	Trace Trace
}

// traces are the acquires that are traced through a tenure. There are almost never any;
// a turn then costs one read of a number, and no clock is read.
type traces struct {
	n    atomic.Int32
	mu   sync.Mutex
	live []*traced
}

// traced is one of them; turn and batch are 0 until it is decided and closed.
type traced struct {
	to          Receiver
	number      uint64
	turn, batch uint64
	at          Trace
}

func (ts *traces) any() bool { return ts.n.Load() > 0 }

// begin follows acquires that are about to be put into the intake.
func (ts *traces) begin(to Receiver, numbers []uint64, received, queued clock.Reading) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, n := range numbers {
		ts.live = append(ts.live, &traced{to: to, number: n, at: Trace{Received: received, Queued: queued}})
	}
	ts.live = ts.live[max(len(ts.live)-tracesMax, 0):]
	ts.n.Store(int32(len(ts.live)))
}

// forget drops what a stream asked for that has ended.
func (ts *traces) forget(to Receiver) {
	if ts.any() {
		ts.drop(func(x *traced) bool { return x.to == to })
	}
}

func (ts *traces) drop(which func(*traced) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.live = slices.DeleteFunc(ts.live, which)
	ts.n.Store(int32(len(ts.live)))
}

func (ts *traces) find(to locktable.Ref, number uint64) *traced {
	i := slices.IndexFunc(ts.live, func(x *traced) bool { return x.number == number && locktable.Ref(x.to) == to })
	if i < 0 {
		return nil
	}
	return ts.live[i]
}

// stepped notes what a turn did that began at began with these acquires.
func (ts *traces) stepped(c *step.Core, acquires []locktable.Command, began, now clock.Reading) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, command := range acquires {
		if a, ok := command.(locktable.Acquire); ok {
			if x := ts.find(a.Ref, a.Number); x != nil {
				x.at.Taken = began
			}
		}
	}
	turn, replies := c.Decided()
	for _, r := range replies {
		if _, granted := r.Answer.(locktable.Granted); !granted {
			continue
		}
		if x := ts.find(r.To, r.Number); x != nil {
			x.turn, x.at.Decided = turn, now
		}
	}
	ts.closed(c, now)
}

// closed notes the batches that decided acquires went into.
func (ts *traces) closed(c *step.Core, now clock.Reading) {
	for _, x := range ts.live {
		if x.turn == 0 || x.batch != 0 {
			continue
		}
		if n := c.BatchOf(x.turn); n != 0 {
			x.batch, x.at.Closed = n, now
		}
	}
}

// landed notes the end of an append, and what was closed because of it.
func (ts *traces) landed(c *step.Core, l landing, now clock.Reading) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, x := range ts.live {
		if x.batch == l.batch.Number && l.batch.traced {
			x.at.Appending, x.at.Landed = l.began, l.ended
		}
	}
	ts.closed(c, now)
}

// carries reports whether a traced acquire waits for a batch.
func (ts *traces) carries(number uint64) bool {
	if !ts.any() {
		return false
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.ContainsFunc(ts.live, func(x *traced) bool { return x.batch == number })
}

// final returns an answer as its receiver gets it, with the trace of the acquire
// that was asked for. A trace ends with the answer, whatever that is; a word
// that the acquire waits is none.
func (ts *traces) final(r *locktable.Reply, k clock.Clock) locktable.Answer {
	if _, waiting := r.Answer.(locktable.Waiting); waiting {
		return r.Answer
	}
	ts.mu.Lock()
	x := ts.find(r.To, r.Number)
	ts.mu.Unlock()
	if x == nil {
		return r.Answer
	}
	ts.drop(func(other *traced) bool { return other == x })
	if _, granted := r.Answer.(locktable.Granted); !granted {
		return r.Answer
	}
	x.at.Final = k.Now()
	return Traced{r.Answer, x.at}
}
