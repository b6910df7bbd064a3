package pawltest

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// bufferSize is what a connection holds in each direction, as a kernel would.
const bufferSize = 1 << 20

var errRefused = errors.New("connection refused")

// network joins clients to the server, and swallows what passes when told to.
type network struct {
	mu       sync.Mutex
	listener *bufconn.Listener // nil: nobody listens
	// requests and answers are swallowed in the one direction and the other.
	requests, answers bool
	// changed is closed, and made anew, when what is swallowed changes.
	changed chan struct{}
	// paused is closed when the server goes on; nil: it runs.
	paused chan struct{}
	conns  map[*clientConn]struct{}
}

func newNetwork() *network {
	return &network{changed: make(chan struct{}), conns: map[*clientConn]struct{}{}}
}

// listen opens the server's end anew.
func (n *network) listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = bufconn.Listen(bufferSize)
	return serverListener{n.listener, n}
}

func (n *network) refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = nil
}

func (n *network) swallow(requests, answers bool) {
	n.mu.Lock()
	n.requests, n.answers = requests, answers
	close(n.changed)
	n.changed = make(chan struct{})
	var broken []*clientConn
	if !requests && !answers {
		for c := range n.conns {
			if c.tainted {
				broken = append(broken, c)
			}
		}
	}
	n.mu.Unlock()
	for _, c := range broken {
		c.Close()
	}
}

func (n *network) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused == nil {
		n.paused = make(chan struct{})
	}
}

func (n *network) goOn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused != nil {
		close(n.paused)
		n.paused = nil
	}
}

func (n *network) dial(ctx context.Context) (net.Conn, error) {
	for {
		n.mu.Lock()
		l, changed, swallowed := n.listener, n.changed, n.requests || n.answers
		n.mu.Unlock()
		switch {
		case swallowed:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case l == nil:
			return nil, errRefused
		}
		inner, err := l.DialContext(ctx)
		if err != nil {
			return nil, errRefused
		}
		c := &clientConn{Conn: inner, n: n}
		n.mu.Lock()
		n.conns[c] = struct{}{}
		n.mu.Unlock()
		return c, nil
	}
}

// clientConn is a client's end. One that bytes were swallowed from is of no
// more use when the network is whole again, and is closed then.
type clientConn struct {
	net.Conn
	n       *network
	tainted bool // under n.mu
}

func (c *clientConn) Read(p []byte) (int, error) {
	for {
		k, err := c.Conn.Read(p)
		if err != nil || !c.swallowed(func(n *network) bool { return n.answers }) {
			return k, err
		}
	}
}

func (c *clientConn) Write(p []byte) (int, error) {
	if c.swallowed(func(n *network) bool { return n.requests }) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *clientConn) swallowed(which func(*network) bool) bool {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if which(c.n) {
		c.tainted = true
	}
	// What follows a gap can never be made sense of.
	return c.tainted
}

func (c *clientConn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}

type serverListener struct {
	net.Listener
	n *network
}

func (l serverListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &serverConn{Conn: inner, n: l.n, closed: make(chan struct{})}, nil
}

// serverConn is the server's end: while the server is paused, nothing passes it.
type serverConn struct {
	net.Conn
	n      *network
	once   sync.Once
	closed chan struct{}
}

func (c *serverConn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	c.wait()
	return k, err
}

func (c *serverConn) Write(p []byte) (int, error) {
	c.wait()
	return c.Conn.Write(p)
}

func (c *serverConn) wait() {
	for {
		c.n.mu.Lock()
		paused := c.n.paused
		c.n.mu.Unlock()
		if paused == nil {
			return
		}
		select {
		case <-paused:
		case <-c.closed:
			return
		}
	}
}

func (c *serverConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
