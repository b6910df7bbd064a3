package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/peerconn"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// The stores that a server can be told to use.
const (
	StoreEmbedded = "embedded"
	StoreEtcd     = "etcd"
	StoreMemory   = "memory"
	// StoreQuorum is the embedded store of a server with peers.
	StoreQuorum = "quorum"
)

// opened is a store with what belongs to it.
type opened struct {
	store  store.Store
	node   [16]byte
	failed func() <-chan struct{}
	err    func() error
	close  func() error
	// roster of the members; nil: the store has none.
	roster service.Roster
	// health of the store; nil: there is nothing to tell.
	health func() etcdstore.Health
	// waits says what the store waits for; nil: it never tells.
	waits func() string
}

// Etcd says how a cluster that others run is reached. Endpoints and Prefix are
// needed; the rest is as in etcdstore.ExternalOptions.
type Etcd struct {
	Endpoints []string
	Prefix    string
	TLS       etcdstore.TLS
	User      string
	Password  func() (string, error)
}

// Quorum says which member a server of StoreQuorum is, and of whose; as in
// etcdstore.QuorumOptions.
type Quorum struct {
	Node  string
	Peers []etcdstore.Peer
	// Listen is the address for peers.
	Listen string
	TLS    peerconn.Files
}

// openStore opens the store of o. peers is where members of a quorum are listened for.
func openStore(ctx context.Context, o *Options, peers net.Listener) (*opened, error) {
	switch o.Store {
	case StoreEtcd:
		return openExternal(ctx, o)
	case StoreQuorum:
		return openQuorum(ctx, o, peers)
	}
	return openOwn(ctx, o)
}

// openQuorum opens a cell that this server holds with its peers.
func openQuorum(ctx context.Context, o *Options, peers net.Listener) (*opened, error) {
	q, err := etcdstore.OpenQuorum(ctx, etcdstore.QuorumOptions{
		EmbeddedOptions: etcdstore.EmbeddedOptions{
			Dir: o.Data, ActiveTTL: o.ActiveTTL, Clock: o.Clock, Logger: o.Logger,
		},
		Node: o.Quorum.Node, Peers: o.Quorum.Peers, TLS: o.Quorum.TLS, Listener: peers,
		Fresh: func() error { return checkClock(o.Clock.Wall(), o.Released) },
	})
	if err != nil {
		return nil, err
	}
	return &opened{store: q, node: q.NodeID(), failed: q.Done, err: q.Err, close: q.Close, roster: roster{q}, health: q.Health, waits: q.Waits}, nil
}

// openOwn opens a store that nobody else can reach. For a fresh cell it draws
// the cell's id, of which a fresh member's cluster must not be independent.
func openOwn(ctx context.Context, o *Options) (*opened, error) {
	fresh, err := isFresh(*o)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := checkClock(o.Clock.Wall(), o.Released); err != nil {
			return nil, err
		}
		if o.CellID == "" {
			o.CellID = cell.NewID(o.Cell)
		}
	}
	if o.Store == StoreMemory {
		return &opened{
			store:  memstore.NewDisk().Store(memstore.Options{Clock: o.Clock, ActiveTTL: o.ActiveTTL, Sole: true, Logger: o.Logger}),
			node:   drawID(),
			failed: func() <-chan struct{} { return nil },
			err:    func() error { return nil },
			close:  func() error { return nil },
		}, nil
	}
	e, err := etcdstore.OpenEmbedded(ctx, etcdstore.EmbeddedOptions{
		Dir: o.Data, Token: o.CellID, ActiveTTL: o.ActiveTTL, Clock: o.Clock, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &opened{store: e, node: e.NodeID(), failed: e.Done, err: e.Err, close: e.Close, health: e.Health}, nil
}

// openExternal opens a cell in somebody's etcd. With a clock that cannot be
// right it goes on only where there is a cell already.
func openExternal(ctx context.Context, o *Options) (*opened, error) {
	e, err := etcdstore.OpenExternal(ctx, etcdstore.ExternalOptions{
		Dir: o.Data, Endpoints: o.Etcd.Endpoints, Prefix: o.Etcd.Prefix, TLS: o.Etcd.TLS,
		User: o.Etcd.User, Password: o.Etcd.Password, ActiveTTL: o.ActiveTTL, Clock: o.Clock, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	if wrong := checkClock(o.Clock.Wall(), o.Released); wrong != nil {
		there, err := e.HasCell(ctx)
		if err != nil || !there {
			return nil, errors.Join(wrong, err, e.Close())
		}
	}
	return &opened{store: e, node: e.NodeID(), failed: e.Done, err: e.Err, close: e.Close, health: e.Health}, nil
}

// isFresh reports whether there is no cell yet: no member in the data folder
// that has ever served.
func isFresh(o Options) (bool, error) {
	if o.Store == StoreMemory {
		return true, nil
	}
	formed, err := etcdstore.Formed(o.Data)
	return !formed, err
}

// clockYears is how long after its release a program may create cells.
const clockYears = 10

// checkClock refuses a clock that is earlier than this program's build, or long after
// it. The first token comes from the clock, and tokens never go down: one from the
// future could not be undone.
func checkClock(now, released time.Time) error {
	if latest := released.AddDate(clockYears, 0, 0); now.Before(released) || now.After(latest) {
		return fmt.Errorf("%w: it shows %s, and a cell is created only between %s and %s; set the clock and start again",
			ErrClock, now.UTC().Format(time.DateTime), released.Format(time.DateOnly), latest.Format(time.DateOnly))
	}
	return nil
}
