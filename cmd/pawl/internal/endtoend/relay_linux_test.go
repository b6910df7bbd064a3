package endtoend

import (
	"io"
	"net"
	"sync"
	"testing"
)

// silence is what a relay does with the bytes that pass it.
type silence int

const (
	// passing: they arrive.
	passing silence = iota
	// silent: none arrives, either way.
	silent
	// answersLost and requestsLost: one way is silent.
	answersLost
	requestsLost
	// held: they wait, and arrive when the relay passes again.
	held
)

func (s silence) String() string {
	return [...]string{"passing", "silent", "answers lost", "requests lost", "held back"}[s]
}

// relay stands between clients and a server. When it is cut, it closes and resets
// nothing: its clients wait for their answers. It still accepts connections, as a
// network does that has lost its far end.
type relay struct {
	address, to string
	listener    net.Listener

	mu      sync.Mutex
	state   silence
	changed chan struct{} // closed with the next change
	conns   []net.Conn
	closed  bool
	copying sync.WaitGroup
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String(), to: to, listener: l, changed: make(chan struct{})}
	r.copying.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) set(s silence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = s
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.set(silent)
	r.copying.Wait()
}

// track keeps a connection to be closed with the relay.
func (r *relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.Close()
		return false
	}
	r.conns = append(r.conns, c)
	return true
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !r.track(near) {
			return
		}
		if state, _ := r.now(); state != passing && state != held {
			r.copying.Go(func() { _, _ = io.Copy(io.Discard, near) }) // until it is closed
			continue
		}
		far, err := net.Dial("tcp", r.to)
		if err != nil {
			near.Close()
			continue
		}
		if !r.track(far) {
			return
		}
		r.copying.Go(func() { r.copy(far, near, requestsLost) })
		r.copying.Go(func() { r.copy(near, far, answersLost) })
	}
}

func (r *relay) now() (silence, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.changed
}

// copy passes bytes on in one direction. A stream of which bytes were swallowed
// is never mended: its rest is swallowed, too.
func (r *relay) copy(to, from net.Conn, lostBy silence) {
	buf := make([]byte, 32<<10)
	for broken := false; ; {
		n, err := from.Read(buf)
		state, changed := r.now()
		for state == held {
			<-changed
			state, changed = r.now()
		}
		broken = broken || state == silent || state == lostBy
		if broken && err == nil {
			continue
		}
		if broken {
			return // its end does not arrive either
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}
