package cell

import (
	"context"
	"sync"
	"time"
)

// holdPace is how often the store is asked who is the active server while callers
// are held for the answer: once for all of them.
const holdPace = 100 * time.Millisecond

// lobby is where callers are held until a server takes over.
type lobby struct {
	mu     sync.Mutex
	guests int
	// link is where the active server is reached, as the store said last.
	link string
	// turned is closed when that changes, or when this server begins to serve.
	turned chan struct{}
	// leave ends the asking.
	leave context.CancelFunc
}

// Hold keeps a caller that would rather wait here than ask again: a thousand of
// them cost one question to the store at a time. It returns when this server
// serves; when the active server is another than unreached, where the caller
// found nobody, with its link, unless Info names that one already; when nothing of
// that came while the caller has patience, or in twice the active-ttl; or with ctx.
//
// A take-over between the look and the wait is not missed: the channel is taken
// before the look. A caller that is held while unreached is started again is let
// go when the time is over; a server that starts again waits for its turn as this
// one does.
func (c *Cell) Hold(ctx context.Context, unreached string, patience time.Duration) (link string) {
	if to := c.Info().ActiveLink; c.serving() != nil || to != "" && to != unreached {
		return ""
	}
	late := c.o.Clock.NewTimer()
	defer late.Stop()
	late.Reset(min(patience, 2*c.o.ActiveTTL))
	c.lobby.enter(c)
	defer c.lobby.exit()
	for {
		turned, to := c.lobby.look()
		switch {
		case c.serving() != nil:
			return ""
		case to != "" && to != unreached:
			return to
		}
		select {
		case <-turned:
		case <-late.C():
			return ""
		case <-ctx.Done():
			return ""
		}
	}
}

// enter counts a caller in. The first has the store asked.
func (l *lobby) enter(c *Cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests++; l.guests > 1 {
		return
	}
	l.link = ""
	var asking context.Context
	asking, l.leave = context.WithCancel(context.Background())
	go c.lookOut(asking)
}

func (l *lobby) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests--; l.guests == 0 {
		l.leave()
	}
}

func (l *lobby) look() (turned <-chan struct{}, link string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turned == nil {
		l.turned = make(chan struct{})
	}
	return l.turned, l.link
}

// turn lets those who are held look again.
func (l *lobby) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turned != nil {
		close(l.turned)
		l.turned = nil
	}
}

// tell notes where the active server is.
func (l *lobby) tell(link string) {
	l.mu.Lock()
	news := l.link != link
	l.link = link
	l.mu.Unlock()
	if news {
		l.turn()
	}
}

// lookOut asks the store until nobody is held any more.
func (c *Cell) lookOut(ctx context.Context) {
	t := c.o.Clock.NewTimer()
	defer t.Stop()
	for {
		if n, err := c.elsewhere(ctx); err == nil && ctx.Err() == nil {
			c.lobby.tell(n.Link)
		}
		t.Reset(holdPace)
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
	}
}
