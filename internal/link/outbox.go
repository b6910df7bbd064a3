package link

import (
	"sync"
	"sync/atomic"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// item is one answer of the cell on its way out.
type item struct {
	number uint64
	answer locktable.Answer
}

// outbox takes the cell's answers for one stream. Its methods may be called by
// several goroutines; those of the cell never block in it.
type outbox struct {
	// ready has a value when there is something to take.
	ready chan struct{}
	// overflow is closed when more than OutboxMax bytes have piled up behind a
	// portion that is being sent.
	overflow chan struct{}
	// welcome is closed when the stream is attached: until then nothing that its
	// client says may reach a session that may be another's.
	welcome chan struct{}
	notes   *notes
	debt    *debt

	mu    sync.Mutex
	items []item
	bytes int
	// owed is the stream's part of the debt.
	owed int
	over bool
	// sending: an earlier portion is on its way, so what gathers is piling up.
	sending bool
}

// burstMax bounds what may gather before the sender gets to run. One turn of the
// cell can answer thousands of requests of one client, and that client reads.
const burstMax = 4 * OutboxMax

// spareMax is what may wait for a stream, behind a portion that is being sent, even
// while far too much waits for those of its identity together.
const spareMax = 64 << 10

// debt is the bytes of answers that wait for the readers of one identity, or are
// being sent to them. A nil debt is none.
type debt struct {
	identity string
	bytes    atomic.Int64
}

func (s *Server) debtOf(identity string) *debt {
	if d, known := s.debts.Load(identity); known {
		return d.(*debt)
	}
	d, _ := s.debts.LoadOrStore(identity, &debt{identity: identity})
	return d.(*debt)
}

func (d *debt) add(n int) {
	if d != nil {
		d.bytes.Add(int64(n))
	}
}

// over reports whether more waits than may.
func (d *debt) over() bool {
	if d == nil {
		return false
	}
	if d.identity == "" {
		return d.bytes.Load() > AllUnreadMax
	}
	return d.bytes.Load() > UnreadMax
}

// pressing reports whether no further message may be written to anybody. Of those
// who have no name one must not keep the others from being answered.
func (d *debt) pressing() bool { return d != nil && d.identity != "" && d.over() }

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), overflow: make(chan struct{}), welcome: make(chan struct{})}
}

// Receive is cell.Receiver.
func (o *outbox) Receive(number uint64, a locktable.Answer) {
	o.notes.answered(number, a)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, first := a.(locktable.Attached); first {
		close(o.welcome)
	}
	if o.over {
		return
	}
	n := weight(a)
	o.bytes += n
	o.owed += n
	o.debt.add(n)
	if o.bytes > burstMax || o.sending && (o.bytes > OutboxMax || o.bytes > spareMax && o.debt.over()) {
		o.over, o.items = true, nil
		close(o.overflow)
		return
	}
	o.items = append(o.items, item{number, a})
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// paid says that answers of so much weight have left.
func (o *outbox) paid(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = min(n, o.owed)
	o.owed -= n
	o.debt.add(-n)
}

// settle ends the stream: what it was not told it will not be told.
func (o *outbox) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.debt.add(-o.owed)
	o.owed, o.over, o.items = 0, true, nil
}

// sent says that what was taken has left.
func (o *outbox) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = false
}

// take moves what has gathered behind items.
func (o *outbox) take(items []item) []item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items = append(items, o.items...)
	o.sending = true
	clear(o.items)
	o.items, o.bytes = o.items[:0], 0
	return items
}

// weight is about what an answer costs while it waits and on the wire.
func weight(a locktable.Answer) int {
	const base = 96
	switch a := a.(type) {
	case locktable.Granted:
		n := base
		for _, g := range a.Grants {
			n += 32 + len(g.Name)
		}
		return n
	case cell.Traced:
		return base + weight(a.Answer)
	case locktable.Refused:
		n := base + len(a.Message)
		if a.Holder != nil {
			n += 128 + len(a.Holder.Label) + len(a.Holder.Handle)
		}
		return n
	case locktable.Attached:
		return base + 8*len(a.Lost)
	case locktable.Notice:
		return base + len(a.Reason)
	case locktable.Observed:
		return base + len(a.Name) + len(a.Value) + len(a.Label)
	case locktable.Closed:
		return base + len(a.Message)
	default:
		return base
	}
}
