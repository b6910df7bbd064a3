package link

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
)

// Version of the link protocol. Both sides talk to their neighbours.
const Version = 1

const (
	// GreetingMax bounds the wait for a client's first message.
	GreetingMax = 10 * time.Second
	// MessageMax bounds the bytes of a message in either direction.
	MessageMax = 4 << 20
	// RequestsMax bounds the requests of one message, and the names in it that are
	// to be observed or no longer to be.
	RequestsMax = 4096
	// HeldMax bounds the leases, and the requests, that a greeting names.
	HeldMax = 1 << 17
	// OutboxMax bounds the bytes of answers that wait for a slow reader.
	OutboxMax = 4 << 20
)

// Options of a Server.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// Version is the product's version and Store the kind of store, for Status.
	Version, Store string
	// Identity names the caller of a request; nil: nobody has a name.
	Identity func(context.Context) string
}

// Server serves one cell over gRPC.
type Server struct {
	linkpb.UnimplementedLinkServer
	cell *cell.Cell
	o    Options
}

// New returns a server for c.
func New(c *cell.Cell, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Identity == nil {
		o.Identity = func(context.Context) string { return "" }
	}
	return &Server{cell: c, o: o}
}

// Register makes r serve s.
func (s *Server) Register(r grpc.ServiceRegistrar) { linkpb.RegisterLinkServer(r, s) }

// ServerOptions are what a gRPC server needs for the link. Clients renew their
// sessions, so a dead connection shows there first; the pings are for those
// that hold none.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MessageMax),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 10 * time.Second, PermitWithoutStream: true,
		}),
	}
}

// speaks reports whether a client of this protocol version is served.
func speaks(version uint32) bool {
	return version >= max(Version-1, 1) && version <= Version+1
}
