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

// socket is the server's end of the network.
type socket struct {
	mu       sync.Mutex
	listener *bufconn.Listener // nil: nobody listens
	// paused is closed when the server goes on; nil: it runs.
	paused chan struct{}
}

// listen opens the server's end anew.
func (k *socket) listen() net.Listener {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listener = bufconn.Listen(bufferSize)
	return serverListener{k.listener, k}
}

func (k *socket) refuse() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listener = nil
}

func (k *socket) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused == nil {
		k.paused = make(chan struct{})
	}
}

func (k *socket) goOn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused != nil {
		close(k.paused)
		k.paused = nil
	}
}

func (k *socket) dial(ctx context.Context) (net.Conn, error) {
	k.mu.Lock()
	l := k.listener
	k.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, errRefused
	}
	return c, nil
}

type serverListener struct {
	net.Listener
	k *socket
}

func (l serverListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &serverConn{Conn: inner, k: l.k, closed: make(chan struct{})}, nil
}

// serverConn is the server's end of a connection: while the server is paused,
// nothing passes it.
type serverConn struct {
	net.Conn
	k      *socket
	once   sync.Once
	closed chan struct{}
}

func (c *serverConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wait()
	return n, err
}

func (c *serverConn) Write(p []byte) (int, error) {
	c.wait()
	return c.Conn.Write(p)
}

func (c *serverConn) wait() {
	for {
		c.k.mu.Lock()
		paused := c.k.paused
		c.k.mu.Unlock()
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
