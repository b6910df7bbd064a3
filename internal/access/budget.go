package access

import (
	"context"
	"fmt"
	"sync"
)

const (
	// BytesMax bounds the bytes of large bodies and messages that one identity with
	// a name has under way, AllBytesMax those of all together. Few are enough: reading
	// more of them at once takes processors from renewals, and finishes none sooner.
	BytesMax    = 2 << 20
	AllBytesMax = 16 << 20
	// DecodingsMax bounds how many of them are decoded at the same time for one
	// identity with a name, AllDecodingsMax for all together.
	DecodingsMax    = 1
	AllDecodingsMax = 4
	// SmallMax is up to how many bytes one is small: it costs no more than the
	// request that carries it, and waits for nothing.
	SmallMax = 4 << 10
)

// Bytes takes room for n bytes that a caller is about to send. It waits while its
// identity, or all together, have too many under way. give returns the room; calling it
// twice is allowed. Errors: ErrRevoked, ErrTooMany (n is more than the total), and the
// context's.
func (g *Gate) Bytes(ctx context.Context, c *Caller, n int) (give func(), err error) {
	return g.bytes.take(ctx, c, n)
}

// Decoding waits for the turn of a caller's identity to have something large
// decoded. done ends the turn. Errors: ErrRevoked, and the context's.
func (g *Gate) Decoding(ctx context.Context, c *Caller) (done func(), err error) {
	return g.decodings.take(ctx, c, 1)
}

// sharedBudget is room that identities share, with a limit for each identity and one
// for all. A caller that finds no room waits behind others of its identity, and the
// identities that wait are served in turn.
type sharedBudget struct {
	each, most int

	mu   sync.Mutex
	used int
	of   map[string]*budgetShare
	ring []*budgetShare // the shares with waiters, in their turn
}

// budgetShare is what one identity has taken, and its waiters.
type budgetShare struct {
	name  string
	used  int
	queue []*budgetWaiter
}

// budgetWaiter waits for room.
type budgetWaiter struct {
	n     int
	taken chan struct{} // closed when it has the room
}

func newSharedBudget(each, most int) *sharedBudget {
	return &sharedBudget{each: each, most: most, of: map[string]*budgetShare{}}
}

func (l *sharedBudget) take(ctx context.Context, c *Caller, n int) (give func(), err error) {
	i := c.Identity()
	if i == nil {
		return nil, ErrRevoked
	}
	limit := l.limit(i.name)
	if n > limit {
		return nil, fmt.Errorf("%w: %d where %d is the limit", ErrTooMany, n, limit)
	}
	l.mu.Lock()
	p := l.of[i.name]
	if p == nil {
		p = &budgetShare{name: i.name}
		l.of[i.name] = p
	}
	x := &budgetWaiter{n: n, taken: make(chan struct{})}
	if p.queue = append(p.queue, x); len(p.queue) == 1 {
		l.ring = append(l.ring, p)
	}
	l.serve()
	l.mu.Unlock()
	select {
	case <-x.taken:
		return sync.OnceFunc(func() { l.give(p, n) }), nil
	default:
	}
	select {
	case <-x.taken:
	case <-ctx.Done():
		if l.cancel(p, x) {
			return nil, ctx.Err()
		}
	}
	return sync.OnceFunc(func() { l.give(p, n) }), nil
}

// limit is how much an identity may have; anonymous callers may have all.
func (l *sharedBudget) limit(name string) int {
	if name == "" {
		return l.most
	}
	return l.each
}

func (l *sharedBudget) give(p *budgetShare, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.used -= n
	l.used -= n
	l.serve()
	l.forget(p)
}

// cancel removes a waiter; false: it has been served.
func (l *sharedBudget) cancel(p *budgetShare, x *budgetWaiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, y := range p.queue {
		if y == x {
			p.queue = append(p.queue[:k], p.queue[k+1:]...)
			l.unlist(p)
			l.serve()
			l.forget(p)
			return true
		}
	}
	return false
}

// unlist takes an identity of which nobody waits out of the ring.
func (l *sharedBudget) unlist(p *budgetShare) {
	if len(p.queue) > 0 {
		return
	}
	for k, q := range l.ring {
		if q == p {
			l.ring = append(l.ring[:k], l.ring[k+1:]...)
			return
		}
	}
}

func (l *sharedBudget) forget(p *budgetShare) {
	if p.used == 0 && len(p.queue) == 0 {
		delete(l.of, p.name)
	}
}

// serve gives room to the first waiter of each identity in turn. It passes over an
// identity that is at its own limit. It waits for one that lacks shared room, so that
// small requests do not starve large ones.
func (l *sharedBudget) serve() {
	for passed := 0; passed < len(l.ring); {
		p := l.ring[0]
		x := p.queue[0]
		own := p.used+x.n <= l.limit(p.name)
		if own && l.used+x.n > l.most {
			return
		}
		l.ring = l.ring[1:]
		if !own {
			l.ring = append(l.ring, p)
			passed++
			continue
		}
		passed = 0
		p.used += x.n
		l.used += x.n
		close(x.taken)
		if p.queue = p.queue[1:]; len(p.queue) > 0 {
			l.ring = append(l.ring, p)
		}
	}
}
