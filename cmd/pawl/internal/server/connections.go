package server

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

const (
	// connectionsMax bounds the connections of each front.
	connectionsMax = 65536
	// filesKept is the number of files that are reserved from connections, above all
	// for the store: a store that cannot open its next file ends the server.
	filesKept = 256
	// logEvery bounds how often it is logged that there are too many.
	logEvery = time.Minute
)

// connectionsOf is how many connections a front may have where the process may
// have so many files open; 0: unknown. There are three fronts.
func connectionsOf(files uint64) int {
	switch {
	case files == 0:
		return connectionsMax
	case files <= 2*filesKept:
		return int(max(files/6, 1))
	}
	return int(min((files-filesKept)/3, connectionsMax))
}

// connectionLimit closes connections beyond a front's limit as soon as they
// are accepted: clients must not be able to use up the server's file descriptors.
type connectionLimit struct {
	net.Listener
	limit int
	clock clock.Clock
	log   *slog.Logger
	flag  string

	mu       sync.Mutex
	open     int
	loggedAt clock.Reading
	logged   bool // told is set
}

// Accept implements net.Listener.
func (l *connectionLimit) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.take() {
			return &admitted{Conn: c, from: l}, nil
		}
		_ = c.Close() // nothing was said
	}
}

func (l *connectionLimit) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open < l.limit {
		l.open++
		return true
	}
	if now := l.clock.Now(); !l.logged || now.Longer(l.loggedAt) >= logEvery {
		l.logged, l.loggedAt = true, now
		l.log.Error("there are as many connections as there may be; more are closed at once", "front", l.flag, "connections", l.open)
	}
	return false
}

func (l *connectionLimit) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn
	from *connectionLimit
	left sync.Once
}

// Close implements net.Conn.
func (c *admitted) Close() error {
	err := c.Conn.Close()
	c.left.Do(c.from.give)
	return err
}
