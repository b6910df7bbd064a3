package access

import (
	"cmp"
	"fmt"
)

// Admission is a registered caller: a stream, or a request that waits.
type Admission struct {
	gate   *Gate
	caller *Caller
	in     *Identity
	stream bool
	out    func(error)
}

// Register admits a caller until End. When a change of the policy ends the admission,
// out is called with ErrRevoked or ErrChanged, at most once and not by the goroutine
// that registers. Errors: ErrRevoked, ErrTooMany.
func (g *Gate) Register(c *Caller, stream bool, out func(error)) (*Admission, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Identity()
	// The authorities may have changed since the caller was let in.
	if i == nil || !g.stands(c.chain) {
		return nil, ErrRevoked
	}
	x := &Admission{gate: g, caller: c, in: i, stream: stream, out: out}
	if stream {
		if err := g.streams.take(i, cmp.Or(i.limits.Streams, StreamsDefault)); err != nil {
			return nil, err
		}
	}
	g.admissions[x] = struct{}{}
	return x, nil
}

// End ends the admission. Calling it twice is allowed.
func (x *Admission) End() {
	g := x.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(x)
}

func (g *Gate) drop(x *Admission) {
	if _, here := g.admissions[x]; !here {
		return
	}
	delete(g.admissions, x)
	if !x.stream {
		return
	}
	g.streams.give(x.in)
}

// Call counts a call without a stream, until leave is called. Errors: ErrRevoked,
// ErrTooMany.
func (g *Gate) Call(c *Caller) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Identity()
	if i == nil {
		return nil, ErrRevoked
	}
	if err := g.calls.take(i, CallsMax); err != nil {
		return nil, err
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.calls.give(i)
	}, nil
}

// quota counts what is inside, by the names of identities.
type quota struct {
	what      string
	of        map[string]int
	all, most int
}

// take counts one more, unless there are as many as there may be. limit is the
// identity's; anonymous callers share one.
func (w *quota) take(i *Identity, limit int) error {
	if i == anyone {
		limit = w.most
	}
	if n := w.of[i.name]; n >= limit {
		return fmt.Errorf("%w: this identity has %d %s, its limit", ErrTooMany, n, w.what)
	}
	if w.all >= w.most {
		return fmt.Errorf("%w: the server has %d %s, its limit", ErrTooMany, w.all, w.what)
	}
	w.of[i.name]++
	w.all++
	return nil
}

func (w *quota) give(i *Identity) {
	w.all--
	if w.of[i.name]--; w.of[i.name] == 0 {
		delete(w.of, i.name)
	}
}
