package link

import (
	"sync"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/wire"
)

// outbox takes the cell's answers for one stream. Its methods may be called by
// several goroutines; those of the cell never block in it.
type outbox struct {
	// ready has a value when there is something to take.
	ready chan struct{}
	// overflow is closed when more than OutboxMax bytes have piled up behind a
	// portion that is being sent, or for the whole identity far too much has.
	overflow chan struct{}
	// welcome is closed when the stream is attached: until then nothing that its
	// client says may reach a session that may be another's.
	welcome chan struct{}
	audit   *service.StreamAudit
	budget  *unreadBudget

	mu    sync.Mutex
	items []wire.Item
	bytes int
	// unread is the stream's part of the budget.
	unread int
	over   bool
	// alone: it is over for what waits for this stream itself.
	alone bool
	// sending: an earlier portion is on its way, so what gathers is piling up.
	sending bool
}

// burstMax bounds what may gather before the sender gets to run. One turn of the
// cell can answer thousands of requests of one client, and that client reads.
const burstMax = 4 * OutboxMax

// spareMax is what may wait for a stream, behind a portion that is being sent, even
// while far too much waits for those of its identity together.
const spareMax = 64 << 10

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), overflow: make(chan struct{}), welcome: make(chan struct{})}
}

// Receive is cell.Receiver.
func (o *outbox) Receive(number uint64, a locktable.Answer) {
	o.audit.Answered(number, a)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, first := a.(locktable.Attached); first {
		close(o.welcome)
	}
	if o.over {
		return
	}
	n := wire.Weight(a)
	o.bytes += n
	o.unread += n
	o.budget.add(n)
	alone := o.bytes > burstMax || o.sending && o.bytes > OutboxMax
	if alone || o.sending && o.bytes > spareMax && o.budget.over() {
		o.over, o.alone, o.items = true, alone, nil
		close(o.overflow)
		return
	}
	o.items = append(o.items, wire.Item{Number: number, Answer: a})
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// Gone implements step.Droppable. A stream that has ended is sent nothing; the audit log
// still gets a record of what was done at its request.
func (o *outbox) Gone(a locktable.Answer) bool {
	switch a.(type) {
	case locktable.Granted, cell.Traced, locktable.Done, locktable.Refused:
		if o.audit != nil {
			return false
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// written notes that answers of so much weight were written.
func (o *outbox) written(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = min(n, o.unread)
	o.unread -= n
	o.budget.add(-n)
}

// close ends the stream: remaining answers are dropped.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget.add(-o.unread)
	o.unread, o.over, o.items = 0, true, nil
}

// sent says that what was taken has left.
func (o *outbox) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = false
}

// take moves what has gathered behind items.
func (o *outbox) take(items []wire.Item) []wire.Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items = append(items, o.items...)
	o.sending = true
	clear(o.items)
	o.items, o.bytes = o.items[:0], 0
	return items
}
