package etcdtest

import (
	"net"
	"sync"
	"testing"
)

// Relay stands between a client and a member. While it drops, bytes vanish both
// ways, connections stay open and new ones are accepted, as on a network that
// has lost its far end.
type Relay struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	drops   bool
	conns   []net.Conn
	closed  bool
	copying sync.WaitGroup
}

// NewRelay leads to an address until the test ends.
func NewRelay(t testing.TB, to string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, to: to}
	r.copying.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// Address to reach it at.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Drop has bytes vanish, or pass again on new connections: what was open is
// reset then.
func (r *Relay) Drop(drops bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drops = drops
	if !drops {
		r.dropConnections()
	}
}

func (r *Relay) dropConnections() {
	for _, c := range r.conns {
		_ = c.Close() // the other side may have been quicker
	}
	r.conns = nil
}

func (r *Relay) close() {
	_ = r.listener.Close() // which ends accept
	r.mu.Lock()
	r.closed = true
	r.dropConnections()
	r.mu.Unlock()
	r.copying.Wait()
}

func (r *Relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.conns = append(r.conns, c)
	return true
}

func (r *Relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.to)
		if err != nil || !r.track(far) {
			_ = near.Close()
			continue
		}
		if r.track(near) {
			r.copying.Go(func() { r.copy(far, near) })
			r.copying.Go(func() { r.copy(near, far) })
		}
	}
}

func (r *Relay) copy(to, from net.Conn) {
	defer to.Close()
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		r.mu.Lock()
		drops := r.drops
		r.mu.Unlock()
		if n > 0 && !drops {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
