package httpguard

import (
	"context"
	"time"
)

// take finds the line of a resource and uses it.
func (g *Gate) take(resource string) (*kept, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, &busyError{why: "the guard is being stopped", after: time.Second}
	}
	if g.inside >= requestsMax {
		return nil, &busyError{why: "too many requests", after: time.Second}
	}
	k := g.lines[resource]
	if k == nil {
		if len(g.lines) >= resourcesMax && !g.forget() {
			return nil, &busyError{why: "too many resources are in use", after: time.Second}
		}
		k = &kept{resource: resource, changed: make(chan struct{})}
		g.lines[resource] = k
	}
	if k.place != nil {
		g.idle.Remove(k.place)
		k.place = nil
	}
	k.uses++
	g.inside++
	return k, nil
}

// forget makes room for a line: it drops the one that was in no use for the longest time and
// has nothing that only memory knows. One that has is looked at again last: lines that stay
// closed for long keep none of the others.
func (g *Gate) forget() bool {
	at := now()
	e := g.idle.Front()
	for range forgetTries {
		if e == nil {
			return false
		}
		if k := e.Value.(*kept); k.quiet(at) || !k.until.After(g.closed) {
			g.idle.Remove(e)
			delete(g.lines, k.resource)
			return true
		}
		next := e.Next()
		g.idle.MoveToBack(e)
		e = next
	}
	return false
}

// drop ends one use of a line.
func (g *Gate) drop(k *kept) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k.uses--
	g.inside--
	if k.uses == 0 {
		k.place = g.idle.PushBack(k)
	}
	if g.shut {
		close(g.ended)
		g.ended = make(chan struct{})
	}
}

// Shut lets nothing in any more and waits until all that is inside has ended, or ctx has. It
// reports whether nothing is in flight any more, not even at the upstream. Only then may the
// next gate over the same marks begin without Crashed.
func (g *Gate) Shut(ctx context.Context) (clean bool) {
	for {
		g.mu.Lock()
		g.shut = true
		inside, ended := g.inside, g.ended
		clean = inside == 0 && g.silent()
		g.mu.Unlock()
		if inside == 0 {
			return clean
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return false
		}
	}
}

// silent reports that no upstream may still be at work.
func (g *Gate) silent() bool {
	at := now()
	if at.Before(g.closed) {
		return false
	}
	for _, k := range g.lines {
		if !k.quiet(at) {
			return false
		}
	}
	return true
}
