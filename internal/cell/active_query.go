package cell

import (
	"context"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
)

// activeQuery asks the store for the active server, once for all callers that wait for
// the answer. All such queries go through it: otherwise any caller could make a standby
// query, as often as it likes, an etcd that others use, too.
type activeQuery struct {
	mu      sync.Mutex
	running *query
}

type query struct {
	done chan struct{} // closed when the rest is known
	node store.Node
	err  error
}

// share returns what a look finds that is under way, or that begins now. ask must
// come to an end by itself.
func (g *activeQuery) share(ctx context.Context, ask func() (store.Node, error)) (store.Node, error) {
	g.mu.Lock()
	l := g.running
	if l == nil {
		l = &query{done: make(chan struct{})}
		g.running = l
		go func() {
			l.node, l.err = ask()
			g.mu.Lock()
			g.running = nil
			g.mu.Unlock()
			close(l.done)
		}()
	}
	g.mu.Unlock()
	select {
	case <-l.done:
		return l.node, l.err
	case <-ctx.Done():
		return store.Node{}, ctx.Err()
	}
}

// queryActive returns the active server, as the store says.
func (c *Cell) queryActive(ctx context.Context) (store.Node, error) {
	return c.activeQuery.share(ctx, func() (store.Node, error) {
		asking, done := context.WithTimeout(context.Background(), c.o.ActiveTTL)
		defer done()
		n, err := c.o.Store.Active(asking)
		if n.ID == c.o.Node.ID {
			// An earlier run of this node: nobody serves at its addresses before this
			// one does.
			n = store.Node{}
		}
		return n, err
	})
}

// pollActive reports the active server once per pace until ctx ends. When the store has
// said nothing for ActiveTTL, none is known: the one that was active has heard nothing
// either, and has ended its tenure.
func (c *Cell) pollActive(ctx context.Context, pace time.Duration, tell func(active store.Node)) {
	t := c.o.Clock.NewTimer()
	defer t.Stop()
	for heard := c.o.Clock.Now(); ; {
		n, err := c.queryActive(ctx)
		now := c.o.Clock.Now()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			heard = now
			tell(n)
		case now.Longer(heard) >= c.o.ActiveTTL:
			tell(store.Node{})
		}
		t.Reset(pace)
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
	}
}
