package access

import (
	"cmp"
	"fmt"
)

// Guest is a caller who stays: a stream, or a request that waits.
type Guest struct {
	gate   *Gate
	caller *Caller
	in     *Identity
	stream bool
	out    func(error)
}

// Enter lets a caller stay until Leave. out is called, at most once and not by
// the goroutine that is entering, when the policy changes so that it must go: with
// ErrRevoked or ErrChanged. Errors: ErrRevoked, ErrCrowded.
func (g *Gate) Enter(c *Caller, stream bool, out func(error)) (*Guest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Identity()
	// The authorities may have changed since the caller was let in.
	if i == nil || !g.stands(c.chain) {
		return nil, ErrRevoked
	}
	x := &Guest{gate: g, caller: c, in: i, stream: stream, out: out}
	if stream {
		if err := g.streams.enter(i, cmp.Or(i.limits.Streams, StreamsDefault)); err != nil {
			return nil, err
		}
	}
	g.guests[x] = struct{}{}
	return x, nil
}

// Leave ends a stay. Leaving twice is fine.
func (x *Guest) Leave() {
	g := x.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(x)
}

func (g *Gate) drop(x *Guest) {
	if _, here := g.guests[x]; !here {
		return
	}
	delete(g.guests, x)
	if !x.stream {
		return
	}
	g.streams.leave(x.in)
}

// Call counts a call without a stream, until leave is called. Errors: ErrRevoked,
// ErrCrowded.
func (g *Gate) Call(c *Caller) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Identity()
	if i == nil {
		return nil, ErrRevoked
	}
	if err := g.calls.enter(i, CallsMax); err != nil {
		return nil, err
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.calls.leave(i)
	}, nil
}

// crowd counts what is inside, by the names of identities.
type crowd struct {
	what      string
	of        map[string]int
	all, most int
}

// enter counts one more, unless there are as many as there may be. limit is the
// identity's; who has no name is everybody.
func (w *crowd) enter(i *Identity, limit int) error {
	if i == anyone {
		limit = w.most
	}
	if n := w.of[i.name]; n >= limit {
		return fmt.Errorf("%w: this identity has %d %s, its limit", ErrCrowded, n, w.what)
	}
	if w.all >= w.most {
		return fmt.Errorf("%w: the server has %d %s, its limit", ErrCrowded, w.all, w.what)
	}
	w.of[i.name]++
	w.all++
	return nil
}

func (w *crowd) leave(i *Identity) {
	w.all--
	if w.of[i.name]--; w.of[i.name] == 0 {
		delete(w.of, i.name)
	}
}
