package guardproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/pawlproject/pawl/guard/httpguard"
	"github.com/pawlproject/pawl/internal/authority"
)

const (
	// headerMax bounds the time in which a request's head must come, and headerBytesMax
	// its size.
	headerMax      = 10 * time.Second
	headerBytesMax = 64 << 10
	// idleMax is how long a connection without a request stays open.
	idleMax = 2 * time.Minute
	// connectionsMax bounds the connections of clients. More wait to be accepted.
	connectionsMax = 8_192
	// metricsMax bounds a whole request for metrics.
	metricsMax = 10 * time.Second
)

// Off switches the metrics off.
const Off = "off"

// ErrListen: an address cannot be listened on.
var ErrListen = errors.New("cannot listen")

// Options are those of a proxy.
type Options struct {
	// Listen and Metrics are addresses; Metrics may be Off.
	Listen, Metrics string
	Upstream        *url.URL
	// State is the path of the SQLite file with the marks.
	State string
	// Gate says how requests are guarded, but for Crashed.
	Gate httpguard.Options
	// Cert, Key and ClientCA are paths of PEM files; empty: none.
	Cert, Key, ClientCA string
	Logger              *slog.Logger
}

// Run serves until ctx ends, then waits for what is in flight: for as long as an upstream may
// take, at most.
func Run(ctx context.Context, o Options) (err error) {
	secure, err := o.tls()
	if err != nil {
		return err
	}
	marks, crashed, err := openState(ctx, o.State)
	if err != nil {
		return err
	}
	clean := false
	defer func() { err = errors.Join(err, marks.close(clean)) }()

	o.Gate.Crashed = crashed
	gate := httpguard.NewGate(marks, o.Gate)
	front := &http.Server{
		Handler:           gate.Proxy(o.Upstream, nil, slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn)),
		ReadHeaderTimeout: headerMax, IdleTimeout: idleMax, MaxHeaderBytes: headerBytesMax,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), TLSConfig: secure,
	}
	back := &http.Server{Handler: metricsHandler(gate), ReadTimeout: metricsMax, WriteTimeout: metricsMax, MaxHeaderBytes: headerBytesMax}
	defer back.Close()
	defer front.Close()

	ended := make(chan error, 2)
	l, err := listen(ctx, "--listen", o.Listen)
	if err != nil {
		return err
	}
	l = &limited{Listener: l, room: make(chan struct{}, connectionsMax), closed: make(chan struct{})}
	shown := []any{"address", l.Addr().String(), "upstream", o.Upstream.Redacted(), "tls", secure != nil}
	if o.Metrics != Off {
		m, err := listen(ctx, "--metrics-listen", o.Metrics)
		if err != nil {
			_ = l.Close()
			return err
		}
		shown = append(shown, "metrics", m.Addr().String())
		go func() { ended <- back.Serve(m) }()
	}
	go func() {
		if secure != nil {
			ended <- front.ServeTLS(l, "", "")
			return
		}
		ended <- front.Serve(l)
	}()
	if crashed {
		o.Logger.Warn("the proxy before did not stop cleanly: higher tokens wait for what it may have left in flight", "max_upstream", o.Gate.Linger)
	}
	o.Logger.Info("guarding", shown...)

	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	o.Logger.Info("stopping")
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Gate.Linger)
	defer cancel()
	_ = front.Shutdown(patience) // what it did not wait for is in flight, as the gate says
	clean = gate.Shut(patience)
	if !clean {
		o.Logger.Warn("the upstream may still be at work: the next proxy waits for it", "max_upstream", o.Gate.Linger)
	}
	return err
}

func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrListen, flag, err)
	}
	return l, nil
}

// tls returns how clients are spoken with; nil: in the clear.
func (o *Options) tls() (*tls.Config, error) {
	if o.Cert == "" {
		return nil, nil
	}
	pair, err := authority.Pair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", o.Cert, o.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}}
	if o.ClientCA == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if c.ClientCAs, err = authority.Load(o.ClientCA); err != nil {
		return nil, fmt.Errorf("--tls-client-ca: %w", err)
	}
	return c, nil
}

// limited accepts no more connections than there is room for.
type limited struct {
	net.Listener
	room   chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &accepted{Conn: c, room: l.room}, nil
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// accepted takes room until it is closed.
type accepted struct {
	net.Conn
	room chan struct{}
	once sync.Once
}

// Close implements net.Conn.
func (c *accepted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.room })
	return err
}
