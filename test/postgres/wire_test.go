//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// errLost is what a client sees of a connection that broke.
var errLost = errors.New("wire: connection reset by peer")

// wire is a network whose connections can break at a commit.
type wire struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// onCommit is taken by the next commit.
	onCommit atomic.Pointer[fate]
}

// fate is what becomes of one commit.
type fate struct {
	landed bool   // it reaches the database; its answer never comes back
	then   func() // called when it was sent
}

func (w *wire) loseAnswer(landed bool) { w.onCommit.Store(&fate{landed: landed}) }

func (w *wire) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := w.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wired{Conn: c, wire: w}, nil
}

type wired struct {
	net.Conn
	wire *wire
	// lost: nothing comes back any more; landed: though something was answered.
	lost, landed atomic.Bool
}

// commitMessage is a Query message with the text that the driver sends.
var commitMessage = []byte("Q\x00\x00\x00\x0bcommit\x00")

func (c *wired) Write(p []byte) (int, error) {
	if !bytes.Equal(p, commitMessage) {
		return c.Conn.Write(p)
	}
	f := c.wire.onCommit.Swap(nil)
	if f == nil {
		return c.Conn.Write(p)
	}
	c.lost.Store(true)
	c.landed.Store(f.landed)
	if f.landed {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
	}
	if f.then != nil {
		f.then()
	}
	return len(p), nil
}

func (c *wired) Read(p []byte) (int, error) {
	if !c.lost.Load() {
		return c.Conn.Read(p)
	}
	// A pooler drops a commit whose sender has gone, so the answer is waited for.
	if c.landed.Load() {
		_, _ = c.Conn.Read(p)
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c.Conn)
	return 0, errLost
}
