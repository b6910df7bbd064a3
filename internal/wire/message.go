package wire

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// CheckMessage returns why a message after the greeting is out of bounds; nil: it is
// valid.
func CheckMessage(m *linkpb.ClientMessage) error {
	if m.Hello != nil {
		return errors.New("a second greeting")
	}
	if len(m.Requests) > bounds.RequestsMax {
		return fmt.Errorf("%d requests in one message; at most %d were expected", len(m.Requests), bounds.RequestsMax)
	}
	if n := len(m.Observe) + len(m.Unobserve); n > bounds.RequestsMax {
		return fmt.Errorf("%d names to observe or to stop observing in one message; at most %d were expected", n, bounds.RequestsMax)
	}
	for _, r := range m.Requests {
		if r.Number == 0 {
			return errors.New("a request without a number")
		}
	}
	return nil
}

// Empty reports whether a message says nothing.
func Empty(m *linkpb.ClientMessage) bool {
	return m.FinishedBelow == 0 && m.Renewal == 0 && len(m.Requests) == 0 && len(m.Observe) == 0 && len(m.Unobserve) == 0 && !m.Close
}

// Sorter takes messages apart. Place reads the ticket of a request's number, and Admit
// says whether a request goes on; one that does not has its answer already.
type Sorter struct {
	Place func(number uint64, ticket []byte) locktable.Place
	Admit func(r *linkpb.Request) bool
}

// Sort is a message as the cell takes it. unknown are the numbers of requests that
// this version does not know: the cell could not name them.
func (s Sorter) Sort(m *linkpb.ClientMessage) (c cell.Message, unknown []uint64) {
	c = cell.Message{
		Renewal: m.Renewal, TTL: time.Duration(m.TtlNano), Finished: m.FinishedBelow,
		Observe: m.Observe, Unobserve: m.Unobserve, Close: m.Close,
	}
	c.Acquires = make([]locktable.Acquire, 0, acquiresIn(m.Requests))
	for _, r := range m.Requests {
		if !s.Admit(r) {
			continue
		}
		if !s.sort(&c, r) {
			unknown = append(unknown, r.Number)
		}
	}
	return c, unknown
}

// acquiresIn counts them: they are large, and a slice that grows copies them.
func acquiresIn(requests []*linkpb.Request) int {
	n := 0
	for _, r := range requests {
		if r.GetAcquire() != nil {
			n++
		}
	}
	return n
}

// sort puts a request with others of its kind; false: no kind that is known.
func (s Sorter) sort(c *cell.Message, r *linkpb.Request) bool {
	switch w := r.What.(type) {
	case *linkpb.Request_Acquire:
		a := locktable.Acquire{
			Number: r.Number, Names: w.Acquire.Names, Mode: Mode(w.Acquire.Shared, w.Acquire.Slots),
			Slots: w.Acquire.Slots, Label: w.Acquire.Label, Value: w.Acquire.Value,
			LockDelay: time.Duration(w.Acquire.LockDelayNano), Claims: w.Acquire.Claims,
			RideThrough: time.Duration(w.Acquire.RideThroughNano), Try: w.Acquire.Try, Replaces: w.Acquire.Replaces,
		}
		if len(w.Acquire.Ticket) > 0 {
			a.Ticket = s.Place(cmp.Or(a.Replaces, r.Number), w.Acquire.Ticket)
		}
		if r.Trace {
			c.Traced = append(c.Traced, r.Number)
		}
		c.Acquires = append(c.Acquires, a)
	case *linkpb.Request_Release:
		c.Releases = append(c.Releases, locktable.Release{Number: r.Number, Token: guard.Token(w.Release.Token), Lost: w.Release.Lost})
	case *linkpb.Request_Cancel:
		c.Cancels = append(c.Cancels, locktable.Cancel{Number: w.Cancel.Number})
	case *linkpb.Request_Check:
		c.Checks = append(c.Checks, locktable.Check{Number: r.Number, Token: guard.Token(w.Check.Token)})
	default:
		return false
	}
	return true
}

// Mode reads a lease's mode. Shared slots are no mode: the table refuses slots
// that are not of mode Slots.
func Mode(shared bool, slots uint32) locktable.Mode {
	switch {
	case shared:
		return locktable.Shared
	case slots != 0:
		return locktable.Slots
	}
	return locktable.Exclusive
}
