package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/store"
)

// Options of a server. The zero value of a field that has no comment on it is
// not usable.
type Options struct {
	// Link, HTTP and Debug are addresses to listen on, or Off.
	Link, HTTP, Debug string
	// AdvertiseLink and AdvertiseHTTP are the addresses that clients are sent to
	// while this server is the active one, host or host:port; empty: where it
	// listens.
	AdvertiseLink, AdvertiseHTTP string
	// HTTPHosts are further names that HTTP requests may be addressed to.
	HTTPHosts []string
	Data      string
	Store     string
	// Etcd, for StoreEtcd alone.
	Etcd Etcd
	// Quorum, for StoreQuorum alone.
	Quorum Quorum
	Cell   string
	// CellID is the id to go on with after a wipe; empty: none.
	CellID string
	// TokenFloor is a lower bound: the next token is above it; 0: none.
	TokenFloor guard.Token
	ActiveTTL  time.Duration
	Version    string
	// Released bounds what the clock may show when a cell is created.
	Released time.Time
	Clock    clock.Clock
	Logger   *slog.Logger
	Security Security
	// Insecure: addresses that others can reach need neither TLS nor authentication.
	Insecure bool
	// Begun and Ending, where set, are called once the server answers on its
	// addresses, and when it begins to stop.
	Begun, Ending func()
}

// What keeps a server from starting, and a restart will not mend.
var (
	// ErrClock: no cell is created while the clock is so wrong.
	ErrClock = errors.New("the clock cannot be right")
	// ErrFolder: the data folder cannot be made, read or written.
	ErrFolder = errors.New("the data folder cannot be used")
	// ErrAddress: an address cannot be listened on.
	ErrAddress = errors.New("cannot listen")
)

const (
	// resignMax bounds a clean stop's wait for the cell, answersMax its wait for
	// answers that are on their way.
	resignMax  = 5 * time.Second
	answersMax = time.Second
	// headerMax bounds the time that a request's header may take to arrive,
	// idleMax the time that a connection may stay without a request.
	headerMax = 10 * time.Second
	idleMax   = 2 * time.Minute
)

// Run serves until ctx ends, which is no error, or until it cannot go on.
func Run(ctx context.Context, o Options) (err error) {
	guarded, err := secure(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guarded.close()) }()
	doors, err := open(o)
	if err != nil {
		return err
	}
	defer doors.close()
	st, err := openStore(ctx, &o, doors.peers)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped as asked, a little early
		}
		if errors.As(err, new(*fs.PathError)) {
			err = fmt.Errorf("%w: %w", ErrFolder, err)
		}
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()

	at := advertised(doors, o)
	guarded.checkNames(at, o)
	c := cell.New(cell.Options{
		Store: st.store, Node: store.Node{ID: st.node, Link: at.link, HTTP: at.http},
		Clock: o.Clock, Name: o.Cell, CellID: o.CellID, ActiveTTL: o.ActiveTTL, TokenFloor: o.TokenFloor, Logger: o.Logger,
		Ended: guarded.ended(), Waits: st.waits,
	})
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(serving) }()

	still := make(chan struct{})
	defer close(still)
	go guarded.follow(still)
	fronts, err := doors.serve(c, o, guarded, st)
	if err != nil {
		stop(nil)
		return errors.Join(err, <-ended)
	}
	o.Logger.Info("listening", "cell", o.Cell, "store", o.Store, "link", doors.linkAddress(), "http", doors.httpAddress(),
		"advertised_link", at.link, "advertised_http", at.http, "version", o.Version)
	callIfSet(o.Begun)

	ready := c.Ready()
	for waits := true; waits; {
		waits = false
		select {
		case <-ready:
			o.Logger.Info("ready", "cell", c.Info().Cell, "epoch", c.Info().Epoch)
			ready, waits = nil, true
		case err = <-ended:
			ended <- err
		case err = <-fronts:
		case <-st.failed():
			err = st.err()
		case <-ctx.Done():
			o.Logger.Info("stopping", "cause", context.Cause(ctx))
		}
	}

	// First the tenure, so that the next server need not wait for the rest.
	stop(nil)
	callIfSet(o.Ending)
	limit, cancel := context.WithTimeout(context.Background(), resignMax)
	defer cancel()
	select {
	case ranErr := <-ended:
		if err == nil {
			err = ranErr
		}
	case <-limit.Done():
		o.Logger.Warn("the tenure could not be ended in time; it ends by itself")
	}
	doors.shut()
	return err
}

func callIfSet(whom func()) {
	if whom != nil {
		whom()
	}
}

// listeners are the listeners and what serves them.
type listeners struct {
	link, http, debug, peers net.Listener
	grpc                     *grpc.Server
	web, inspect             *http.Server
}

// open listens before anything else is done, so that a port in use is known at
// once.
func open(o Options) (*listeners, error) {
	d := &listeners{}
	for _, l := range []struct {
		flag, address string
		to            *net.Listener
	}{{"--listen", o.Link, &d.link}, {"--http", o.HTTP, &d.http}, {"--debug-listen", o.Debug, &d.debug}, {"--peer-listen", o.Quorum.Listen, &d.peers}} {
		if l.address == Off || l.address == "" {
			continue
		}
		var err error
		if *l.to, err = net.Listen("tcp", l.address); err != nil {
			d.close()
			return nil, fmt.Errorf("%w: %s", ErrAddress, notListening(l.flag, l.address, err))
		}
		*l.to = &connectionLimit{Listener: *l.to, limit: connectionsOf(filesMax()), clock: o.Clock, log: o.Logger, flag: l.flag}
	}
	return d, nil
}

func (d *listeners) close() {
	for _, l := range []net.Listener{d.link, d.http, d.debug, d.peers} {
		if l != nil {
			_ = l.Close() // closed before, where it was served
		}
	}
}

func (d *listeners) linkAddress() string { return addressOf(d.link) }
func (d *listeners) httpAddress() string { return addressOf(d.http) }

func addressOf(l net.Listener) string {
	if l == nil {
		return Off
	}
	return l.Addr().String()
}

// serve lets requests in. The channel delivers when one of the doors closes by
// itself.
func (d *listeners) serve(c *cell.Cell, o Options, s *security, st *opened) (<-chan error, error) {
	closed := make(chan error, 3)
	if d.link != nil {
		l := s.newLink(c, o, st)
		d.grpc = grpc.NewServer(s.grpcOptions(l)...)
		l.Register(d.grpc)
		go func() {
			if err := d.grpc.Serve(d.link); err != nil {
				closed <- fmt.Errorf("serve gRPC: %w", err)
			}
		}()
	}
	if d.http != nil {
		asked := service.New(c, s.gate, s.auditLog())
		h, err := rest.NewHandler(rest.Options{
			Cell: asked, Authorizer: asked, TLS: s.certs != nil, Auth: !s.gate.Open(), Clock: o.Clock, Version: o.Version, Store: o.Store,
			AllowedHost: answersFor(d, o, s),
			Metrics:     metricsHandler(c, o, s), Logger: o.Logger,
		})
		if err != nil {
			return nil, err
		}
		d.web = webServer(h, o.Logger)
		d.web.TLSConfig = s.webTLS()
		go serveWeb(d.web, d.http, "HTTP", closed)
	}
	if d.debug != nil {
		d.inspect = webServer(debugHandler(rest.HostCheck(d.debug.Addr().String(), nil)), o.Logger)
		go serveWeb(d.inspect, d.debug, "debug", closed)
	}
	return closed, nil
}

func webServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerMax, IdleTimeout: idleMax, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func serveWeb(s *http.Server, l net.Listener, what string, closed chan<- error) {
	serve := s.Serve
	if s.TLSConfig != nil {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	if err := serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		closed <- fmt.Errorf("serve %s: %w", what, err)
	}
}

// shut lets answers that are on their way leave, for a moment, and closes.
func (d *listeners) shut() {
	ctx, cancel := context.WithTimeout(context.Background(), answersMax)
	defer cancel()
	if d.grpc != nil {
		done := make(chan struct{})
		go func() { d.grpc.GracefulStop(); close(done) }()
		select {
		case <-done:
		case <-ctx.Done():
			d.grpc.Stop()
			<-done
		}
	}
	for _, s := range []*http.Server{d.web, d.inspect} {
		if s != nil && s.Shutdown(ctx) != nil {
			_ = s.Close() // the remaining requests have had their time
		}
	}
}

// drawID returns random bytes for a node whose store keeps none.
func drawID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}
