package hook

import (
	"context"
	"net"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// Parts replace what the SDK otherwise takes from the system. A nil field
// leaves it as it is.
type Parts struct {
	Clock clock.Clock
	// Dial opens a connection to a server that was named to pawl.Dial, or that
	// another server named.
	Dial func(ctx context.Context, server string) (net.Conn, error)
	// Opened is told the id of every session that the client opens. It must
	// not block.
	Opened func(session []byte)
	// Traced is told the way of every acquire that was granted, before it
	// returns. Without it nothing is traced.
	Traced func(Trace)
}

// Trace tells when an acquire was where. The readings are of the client's clock;
// the server counts from when it had read the request.
type Trace struct {
	// Asked: the caller called; Taken: the client's loop gave it to the stream;
	// Sent: its message was about to be sent; Received: the message with its
	// answer was there; Handed: the caller had it.
	Asked, Taken, Sent, Received, Handed clock.Reading
	// Server is nil when the server does not know how to tell.
	Server *linkpb.Trace
}

type key struct{}

// With returns a context that hands p to pawl.Dial.
func With(ctx context.Context, p Parts) context.Context {
	return context.WithValue(ctx, key{}, p)
}

// From returns the parts that a context carries.
func From(ctx context.Context) Parts {
	p, _ := ctx.Value(key{}).(Parts)
	return p
}
