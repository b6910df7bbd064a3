package link

import (
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/service"
)

const (
	// GreetingMax bounds the wait for a client's first message, and before it for
	// its handshakes.
	GreetingMax = 10 * time.Second
	// IdleMax is how long a connection may be there for nothing.
	IdleMax = 5 * time.Minute
	// HeaderMax bounds the bytes of a call's metadata.
	HeaderMax = 32 << 10
	// StreamWindow and ConnWindow are how many bytes of requests may be on their
	// way. They are fixed: gRPC would measure what the network bears by a ping for
	// every message, which doubles what small messages cost.
	StreamWindow = bounds.MessageMax
	ConnWindow   = 4 << 20
	// OutboxMax bounds the bytes of answers that wait for a slow reader.
	OutboxMax = 4 << 20
	// UnreadMax bounds those that wait for all readers of an identity with a name,
	// AllUnreadMax those for all who have none.
	UnreadMax    = 256 << 20
	AllUnreadMax = 1 << 30
	// StreamsPerConnection bounds the streams, and other calls, of one connection.
	// Further ones wait at the client.
	StreamsPerConnection = 1024
)

// Options of a Server.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// Version is the product's version and Store the kind of store, for Status.
	Version, Store string
	// Gate lets callers in; nil: everybody is.
	Gate *access.Gate
	// Audit is told of what was done and denied; nil: nobody is.
	Audit access.AuditLog
	// Roster of the members where the store has some; nil: it has none.
	Roster service.Roster
	// Health tells what the server knows of its machine and of its part of the store;
	// nil: nothing.
	Health func() *linkpb.Health
}

// Server serves one cell over gRPC.
type Server struct {
	linkpb.UnimplementedLinkServer
	cell    *cell.Cell
	service *service.Service
	o       Options
	// unreads are of each identity that has attached, a *unreadBudget.
	unreads sync.Map
}

// New returns a server for c.
func New(c *cell.Cell, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = access.NewGate(nil)
	}
	return &Server{cell: c, service: service.New(c, o.Gate, o.Audit), o: o}
}

// Register makes r serve s.
func (s *Server) Register(r grpc.ServiceRegistrar) { r.RegisterService(s.serviceDesc(), s) }

// ServerOptions are the options of a gRPC server for the link. A dead connection shows
// when its client's renewals stop; pings are for connections without a session.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		undecodedMessages(),
		uncompressed(),
		grpc.MaxRecvMsgSize(bounds.MessageMax),
		grpc.StaticStreamWindowSize(StreamWindow),
		grpc.StaticConnWindowSize(ConnWindow),
		grpc.MaxConcurrentStreams(StreamsPerConnection),
		grpc.MaxHeaderListSize(HeaderMax),
		grpc.ConnectionTimeout(GreetingMax),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: IdleMax,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 10 * time.Second, PermitWithoutStream: true,
		}),
	}
}
