package etcdstore

import (
	"net"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// peerRead and peerWrite are how long a peer may be silent on a connection, and a write
// to it may take: etcd's own bounds (rafthttp.ConnReadTimeout). Streams are never silent
// for a third of it.
const (
	peerRead  = 5 * time.Second
	peerWrite = 5 * time.Second
)

// timedListener bounds the silence on its connections, so that a peer that is cut off
// does not keep them.
type timedListener struct {
	net.Listener
	clock clock.Clock
}

func (l timedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return timedConn{c, l.clock}, nil
}

type timedConn struct {
	net.Conn
	clock clock.Clock
}

func (c timedConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(c.clock.Wall().Add(peerRead)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c timedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(c.clock.Wall().Add(peerWrite)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
