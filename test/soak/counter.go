package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
)

const (
	// counters are the guarded counters that every client works on.
	counters = 3
	// writesMax is how often a holder writes at most, writePause how long it waits
	// between two writes at most.
	writesMax  = 5
	writePause = 5 * time.Millisecond
)

// counter is a number behind a guard. A write sets it to what its holder had read, plus
// one, so a write that another holder did not read is lost, and the number shows it.
type counter struct {
	name string

	mu    sync.Mutex
	seen  guard.State
	value int64
	// accepted and refused count writes.
	accepted, refused int64
}

// Claim implements guard.Claimer.
func (c *counter) Claim(_ context.Context, f guard.Fence) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decide(f)
}

// decide is called with mu held.
func (c *counter) decide(f guard.Fence) error {
	next, verdict := guard.Decide(guard.Monotonic, c.seen, f.Mark())
	c.seen = next
	return verdict.Err(c.name, c.seen, f.Mark())
}

func (c *counter) read() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}

func (c *counter) write(f guard.Fence, value int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.decide(f); err != nil {
		c.refused++
		return err
	}
	c.value = value
	c.accepted++
	return nil
}

// lost is how many writes that were accepted are not in the number.
func (c *counter) lost() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted - c.value
}

// count takes a counter's lease, writes a few times and gives the lease back, until ctx
// ends.
func (w *work) count(ctx context.Context, c *pawl.Client, n *counter) {
	for ctx.Err() == nil {
		floor := w.floor()
		l, err := c.Acquire(ctx, n.name, pawl.Claim(n))
		if err != nil {
			w.unknown.Add(1)
			w.pause(ctx, errorPause)
			continue
		}
		w.granted(l, floor)
		value := n.read()
		for range 1 + rand.IntN(writesMax) {
			value++
			if n.write(l.Fence(), value) != nil {
				break
			}
			w.pause(l.Context(), upTo(writePause))
		}
		w.giveBack(l)
	}
}
