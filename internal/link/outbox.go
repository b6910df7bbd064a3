package link

import (
	"sync"

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
	// overflow is closed when more than OutboxMax bytes had gathered.
	overflow chan struct{}

	mu    sync.Mutex
	items []item
	bytes int
	over  bool
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), overflow: make(chan struct{})}
}

// Receive is cell.Receiver.
func (o *outbox) Receive(number uint64, a locktable.Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return
	}
	o.bytes += weight(a)
	if o.bytes > OutboxMax {
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

// take moves what has gathered behind items.
func (o *outbox) take(items []item) []item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items = append(items, o.items...)
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
