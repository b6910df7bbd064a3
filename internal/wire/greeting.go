package wire

import (
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// HeldMax bounds the leases, and the requests, that a greeting names.
const HeldMax = 1 << 17

// speaks reports whether a client of this protocol version is served.
func speaks(version uint32) bool {
	return version >= max(linkpb.Version-1, 1) && version <= linkpb.Version+1
}

// CheckHello says why a greeting is not accepted; nil: it is. What the lock table
// checks itself is left to it.
func CheckHello(h *linkpb.Hello) *linkpb.Closed {
	invalid := func(format string, args ...any) *linkpb.Closed {
		return &linkpb.Closed{Reason: linkpb.Reason_REASON_INVALID, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !speaks(h.Version):
		return invalid("the client speaks version %d of the link protocol, this server %d and its neighbours", h.Version, linkpb.Version)
	case len(h.Session) != 0 && len(h.Session) != len(locktable.ID{}):
		return invalid("a session id of %d bytes; %d were expected", len(h.Session), len(locktable.ID{}))
	case len(h.Held) > HeldMax || len(h.Wanted) > HeldMax:
		return invalid("%d leases and %d requests in a greeting; at most %d of each were expected", len(h.Held), len(h.Wanted), HeldMax)
	case h.Generation == 0:
		return invalid("generation 0 of the stream; 1 or more was expected")
	}
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
	}
	if tells {
		c.Cell, c.Highest = h.Cell, guard.Token(h.HighestToken)
	}
	return c
}
