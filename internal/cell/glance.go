package cell

import (
	"context"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
)

// glance is one look at the store for all who ask meanwhile who is active, and the
// only way to ask it: whoever may ask anything at all could otherwise have a standby
// ask as often as it likes a cluster that others use, too.
type glance struct {
	mu  sync.Mutex
	now *look
}

type look struct {
	done chan struct{} // closed when the rest is known
	node store.Node
	err  error
}

// share returns what a look finds that is under way, or that begins now. ask must
// come to an end by itself.
func (g *glance) share(ctx context.Context, ask func() (store.Node, error)) (store.Node, error) {
	g.mu.Lock()
	l := g.now
	if l == nil {
		l = &look{done: make(chan struct{})}
		g.now = l
		go func() {
			l.node, l.err = ask()
			g.mu.Lock()
			g.now = nil
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

// activeNow is who the store says is active, for whoever asks.
func (c *Cell) activeNow(ctx context.Context) (store.Node, error) {
	return c.glance.share(ctx, func() (store.Node, error) {
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

// lookEvery tells who is active, as often as pace says, until ctx ends. What the
// store does not say is not told.
func (c *Cell) lookEvery(ctx context.Context, pace time.Duration, tell func(active store.Node)) {
	t := c.o.Clock.NewTimer()
	defer t.Stop()
	for {
		if n, err := c.activeNow(ctx); err == nil && ctx.Err() == nil {
			tell(n)
		}
		t.Reset(pace)
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
	}
}
