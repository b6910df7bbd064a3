package wire

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// EntryBytes is what one lease or request that a greeting names takes up.
const EntryBytes = 8

// speaks reports whether a client of this protocol version is served.
func speaks(version uint32) bool {
	return version >= max(linkpb.Version-1, 1) && version <= linkpb.Version+1
}

// Alone reports whether a greeting is nothing else. It is kept until it is answered,
// for as long as a server holds its client that is not the active one, or its store
// says nothing; requests are fifty times as large in memory as on the wire.
func Alone(m *linkpb.ClientMessage) bool {
	return len(m.Requests)+len(m.Observe)+len(m.Unobserve) == 0 && len(m.Hello.Features) <= bounds.FeaturesMax
}

// CheckHello says why a greeting, as its first message has it, is not accepted; nil: it
// is. What the lock table checks itself is left to it.
func CheckHello(h *linkpb.Hello) *linkpb.Closed {
	invalid := func(format string, args ...any) *linkpb.Closed {
		return &linkpb.Closed{Reason: linkpb.Reason_REASON_INVALID, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !speaks(h.Version):
		return invalid("the client speaks version %d of the link protocol, this server %d and its neighbours", h.Version, linkpb.Version)
	case len(h.Session) != 0 && len(h.Session) != len(locktable.ID{}):
		return invalid("a session id of %d bytes; %d were expected", len(h.Session), len(locktable.ID{}))
	case len(h.Held)+len(h.Wanted) > bounds.NamedMax:
		return invalid("%d leases and requests in one message of a greeting; at most %d were expected", len(h.Held)+len(h.Wanted), bounds.NamedMax)
	case h.Further > 2*bounds.HeldMax:
		return invalid("a greeting of %d leases and requests; at most %d of each were expected", h.Further, bounds.HeldMax)
	case h.Generation == 0:
		return invalid("generation 0 of the stream; 1 or more was expected")
	}
	return nil
}

// Further adds a message to the greeting h that it belongs to. The error says why it is
// out of bounds.
func Further(h *linkpb.Hello, m *linkpb.ClientMessage) error {
	part := m.GetHello()
	n := len(part.GetHeld()) + len(part.GetWanted())
	switch {
	case n == 0:
		return fmt.Errorf("a message that names none of the greeting's %d further leases and requests", h.Further)
	case n > bounds.NamedMax || n > int(h.Further):
		return fmt.Errorf("%d leases and requests in one message of a greeting; at most %d were expected", n, min(bounds.NamedMax, int(h.Further)))
	case len(h.Held)+len(part.Held) > bounds.HeldMax || len(h.Wanted)+len(part.Wanted) > bounds.HeldMax:
		return fmt.Errorf("more than %d leases, or requests, in a greeting", bounds.HeldMax)
	}
	h.Held, h.Wanted = append(h.Held, part.Held...), append(h.Wanted, part.Wanted...)
	h.Further -= uint32(n)
	return nil
}

// Hello is a greeting as the cell takes it, but for its identity. tells: what the
// client has seen of tokens counts.
func Hello(h *linkpb.Hello, tells bool) cell.Hello {
	c := cell.Hello{
		Session:    h.Session,
		Generation: h.Generation,
		TTL:        time.Duration(h.TtlNano),
		Label:      h.Label,
		Held:       h.Held,
		Wanted:     h.Wanted,
		Next:       h.NextNumber,
		Riding:     time.Duration(max(h.RidingNano, 0)),
	}
	if tells {
		c.Cell, c.Highest = h.Cell, guard.Token(h.HighestToken)
	}
	return c
}
