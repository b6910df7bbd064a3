package pawltest

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/hook"
)

// Path is one way to the server, with faults of its own. The clients that were
// dialled on it share them; others are not concerned.
type Path struct {
	server *Server

	mu sync.Mutex
	// requests and answers are swallowed in the one direction and the other.
	requests, answers bool
	// changed is closed, and made anew, when what is swallowed changes.
	changed chan struct{}
	conns   map[*clientConn]struct{}
	// sessions are those that clients on this path have opened.
	sessions [][]byte
}

// NewPath returns another way to the server.
func (s *Server) NewPath() *Path {
	return &Path{server: s, changed: make(chan struct{}), conns: map[*clientConn]struct{}{}}
}

// Dial connects a client, which is closed when the test ends. The test fails
// when that does not work.
func (p *Path) Dial(t testing.TB, o pawl.Options) *pawl.Client {
	t.Helper()
	c, err := pawl.Dial(p.Context(context.Background()), p.Servers(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Context returns a context with which [pawl.Dial] takes this path, and shares the
// server's clock.
func (p *Path) Context(ctx context.Context) context.Context {
	return hook.With(ctx, hook.Parts{
		Clock:  p.server.clock,
		Dial:   func(ctx context.Context, _ string) (net.Conn, error) { return p.dial(ctx) },
		Opened: p.opened,
	})
}

// Servers is what to name to [pawl.Dial].
func (p *Path) Servers() []string { return []string{address} }

// Cut swallows every packet in both directions, without a word to anybody,
// until Heal. The server goes on, and counts.
func (p *Path) Cut() { p.swallow(true, true) }

// DropAnswers swallows what the server says until Heal; what clients say
// reaches it.
func (p *Path) DropAnswers() { p.swallow(false, true) }

// Heal ends Cut and DropAnswers. Connections from which something was swallowed
// break.
func (p *Path) Heal() { p.swallow(false, false) }

// Break breaks every connection, as a reset would. New ones can be made.
func (p *Path) Break() {
	for _, c := range p.all(func(*clientConn) bool { return true }) {
		c.Close()
	}
}

// EndSessions ends every session that a client on this path has opened, as an
// operator could.
func (p *Path) EndSessions() {
	p.mu.Lock()
	sessions := p.sessions
	p.sessions = nil
	p.mu.Unlock()
	for _, id := range sessions {
		_, _ = p.server.now().link.CloseSession(context.Background(), &linkpb.CloseSessionRequest{Session: hex.EncodeToString(id)})
	}
}

func (p *Path) opened(session []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = append(p.sessions, session)
}

func (p *Path) swallow(requests, answers bool) {
	p.mu.Lock()
	p.requests, p.answers = requests, answers
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if !requests && !answers {
		for _, c := range p.all(func(c *clientConn) bool { return c.tainted }) {
			c.Close()
		}
	}
}

func (p *Path) all(which func(*clientConn) bool) []*clientConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []*clientConn
	for c := range p.conns {
		if which(c) {
			some = append(some, c)
		}
	}
	return some
}

func (p *Path) dial(ctx context.Context) (net.Conn, error) {
	for {
		p.mu.Lock()
		changed, swallowed := p.changed, p.requests || p.answers
		p.mu.Unlock()
		if !swallowed {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	inner, err := p.server.socket.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &clientConn{Conn: inner, path: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return c, nil
}

// clientConn is a client's end of a connection.
type clientConn struct {
	net.Conn
	path *Path
	// tainted, under path.mu: bytes were swallowed. What follows a gap can never
	// be made sense of.
	tainted bool
}

func (c *clientConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.swallowed(&c.path.answers) {
			return n, err
		}
	}
}

func (c *clientConn) Write(b []byte) (int, error) {
	if c.swallowed(&c.path.requests) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *clientConn) swallowed(flag *bool) bool {
	c.path.mu.Lock()
	defer c.path.mu.Unlock()
	if *flag {
		c.tainted = true
	}
	return *flag
}

// Close is heard by the server only when the path lets it through.
func (c *clientConn) Close() error {
	c.path.mu.Lock()
	silent := c.path.requests
	if silent {
		c.tainted = true
	} else {
		delete(c.path.conns, c)
	}
	c.path.mu.Unlock()
	if silent {
		return c.Conn.SetDeadline(time.Unix(1, 0)) // what reads here ends
	}
	return c.Conn.Close()
}
