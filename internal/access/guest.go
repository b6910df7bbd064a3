package access

import "fmt"

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
		limit := i.limits.Streams
		if limit == 0 {
			limit = StreamsDefault
			if i == anyone {
				limit = StreamsMax
			}
		}
		if n := g.streams[i.name]; n >= limit {
			return nil, fmt.Errorf("%w: this identity has %d streams, its limit", ErrCrowded, n)
		}
		if g.all >= StreamsMax {
			return nil, fmt.Errorf("%w: the server has %d streams, its limit", ErrCrowded, g.all)
		}
		g.streams[i.name]++
		g.all++
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
	g.all--
	if g.streams[x.in.name]--; g.streams[x.in.name] == 0 {
		delete(g.streams, x.in.name)
	}
}
