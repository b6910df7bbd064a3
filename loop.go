package pawl

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// op is what a caller puts into the loop's intake.
type op struct {
	call    *call
	observe *observer
	abandon bool
	close   time.Duration
}

// intake gathers what callers ask until the loop takes it.
type intake struct {
	ready  chan struct{}
	mu     sync.Mutex
	ops    []op
	closed bool
}

func (i *intake) put(o op) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.ops = append(i.ops, o)
	select {
	case i.ready <- struct{}{}:
	default:
	}
	return true
}

// take returns what has gathered, in a slice that is the loop's until it gives
// it back with the next call.
func (i *intake) take(spare []op) []op {
	i.mu.Lock()
	defer i.mu.Unlock()
	ops := i.ops
	clear(spare)
	i.ops = spare[:0]
	return ops
}

func (i *intake) shut() []op {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	return i.ops
}

// run is the client's only goroutine that decides. It waits, hands the core
// what arrived, and carries out what the core wants; it never blocks elsewhere,
// so that a deadline is seen in time. Its timer counts suspend: a machine that
// wakes up finds out at once that its leases are over, not when the rest of a
// renewal's interval has gone by.
func (c *Client) run() {
	defer close(c.ended)
	timer := c.clock.NewAlarm()
	defer timer.Stop()
	var (
		ops   []op
		armed time.Duration // in the core's time; 0: not
	)
	for {
		var first lineEvent
		select {
		case <-c.intake.ready:
			// Whoever is about to ask can still do so: one turn and one message serve
			// them all.
			runtime.Gosched()
		case first = <-c.lines:
		case <-timer.C():
			armed = 0
		}
		// One reading a turn, taken after what arrived had arrived.
		c.core.at(c.clock.Now())
		c.core.heard(first)
		c.hear()
		ops = c.intake.take(ops)
		for _, o := range ops {
			c.perform(o)
		}
		c.core.tick()
		c.carryOut()
		if c.core.finished {
			c.end()
			return
		}
		if at := c.core.t + c.core.wake(); armed == 0 || at < armed {
			timer.Reset(at - c.core.t)
			armed = at
		}
	}
}

// hear hands on what the stream has delivered by now.
func (c *Client) hear() {
	for {
		select {
		case e := <-c.lines:
			c.core.heard(e)
		default:
			return
		}
	}
}

func (c *Client) perform(o op) {
	switch {
	case o.close != 0:
		c.core.close(o.close)
	case o.observe != nil && o.abandon:
		c.core.unobserve(o.observe)
	case o.observe != nil:
		c.core.observe(o.observe)
	case o.abandon:
		c.core.abandon(o.call)
	default:
		c.core.begin(o.call)
	}
}

func (c *Client) carryOut() {
	e := &c.core.effects
	if e.hangUp {
		e.hangUp = false
		if c.stream != nil {
			c.stream.cancel()
			c.stream = nil
		}
	}
	if e.dial != nil {
		c.stream = c.open(e.dial)
		e.dial = nil
	}
	for _, x := range e.traced {
		x.trace.taken(x.number, c.core.now)
	}
	e.traced = nil
	for m := c.core.message(); m != nil; m = c.core.message() {
		c.stream.put(m)
	}
	for _, event := range e.events {
		post(c.events, event)
		if c.log != nil {
			post(c.log, event)
		}
	}
	clear(e.events)
	e.events = e.events[:0]
	if trouble := c.core.line.trouble; trouble != nil {
		c.trouble.Store(&trouble)
	} else {
		c.trouble.Store(nil)
	}
}

// end answers what is still asked, and waits for the goroutines of streams.
func (c *Client) end() {
	for _, o := range c.intake.shut() {
		switch {
		case o.abandon:
		case o.call != nil:
			c.core.late(o.call)
		case o.observe != nil:
			o.observe.end(ErrClosed)
		}
	}
	c.streams.Wait()
	close(c.events)
	if c.log != nil {
		close(c.log)
	}
}

// narrate writes events to a log, which may block.
func narrate(log *slog.Logger, events <-chan Event) {
	for e := range events {
		level := slog.LevelWarn
		if e.Kind == Safe {
			level = slog.LevelInfo
		}
		attrs := []any{"event", e.Kind.String(), "leases", e.Leases, "remaining", e.Remaining}
		if e.Err != nil {
			attrs = append(attrs, "error", e.Err)
		}
		log.Log(context.Background(), level, "pawl: session", attrs...)
	}
}
