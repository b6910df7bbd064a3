package peerconn

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// ReadMax and writeMax are how long a peer may be silent on a connection, and a write to
// it may take: etcd's own bounds (rafthttp.ConnReadTimeout). Streams are never silent for
// a third of it.
const (
	ReadMax  = 5 * time.Second
	writeMax = 5 * time.Second
)

// Listen returns l with its connections bounded by ReadMax and writeMax, so that a peer
// that is cut off does not keep them.
func Listen(l net.Listener, k clock.Clock) net.Listener { return timedListener{l, k} }

type timedListener struct {
	net.Listener
	clock clock.Clock
}

// Accept is net.Listener.
func (l timedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &timedConn{Conn: c, clock: l.clock}, nil
}

// timedConn ends a read or write at its own bound, or at the deadline that its user has
// set, where that comes first.
type timedConn struct {
	net.Conn
	clock clock.Clock

	mu sync.Mutex
	// read and write are the user's deadlines; zero: none.
	read, write time.Time
}

// SetDeadline is net.Conn.
func (c *timedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is net.Conn.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline is net.Conn.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

// Read is net.Conn.
func (c *timedConn) Read(b []byte) (int, error) {
	if err := c.bound(&c.read, ReadMax, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write is net.Conn.
func (c *timedConn) Write(b []byte) (int, error) {
	if err := c.bound(&c.write, writeMax, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// bound sets the earlier of two deadlines. The user's may be set meanwhile, to end this
// very read or write, and must not be overwritten by one that was looked up before.
func (c *timedConn) bound(users *time.Time, most time.Duration, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.clock.Wall().Add(most)
	if !users.IsZero() && users.Before(at) {
		at = *users
	}
	return set(at)
}
