package cell

import (
	"context"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
)

// holdPace is how often the store is asked who is the active server while callers
// are held for the answer: once for all of them.
const holdPace = 100 * time.Millisecond

// lobby is where callers are held until a server takes over.
type lobby struct {
	mu     sync.Mutex
	guests int
	// link is where the active server is reached, as the store said last; known: it
	// has said so since the first guest came.
	link  string
	known bool
	// moves counts how often a known link has changed.
	moves int
	// turned is closed when the link changes, or when this server begins to serve.
	turned chan struct{}
	// leave ends the asking.
	leave context.CancelFunc
}

// Hold keeps a caller that would rather wait here than ask again: a thousand of
// them cost one question to the store at a time. It returns when this server
// serves; when the active server is another than unreached, where the caller
// found nobody, with its link, unless Info names that one already; when it is that
// one again, after it was seen to serve no more; when nothing of that came while the
// caller has patience, or in twice the active-ttl; or with ctx.
//
// A take-over between the look and the wait is not missed: the channel is taken
// before the look. A caller that is held while unreached is killed and started again
// is let go when the time is over: the store shows nothing of that.
func (c *Cell) Hold(ctx context.Context, unreached string, patience time.Duration) (link string) {
	if to := c.Info().ActiveLink; c.serving() != nil || to != "" && to != unreached {
		return ""
	}
	late := c.o.Clock.NewTimer()
	defer late.Stop()
	late.Reset(min(patience, 2*c.o.ActiveTTL))
	before := c.lobby.enter(c)
	defer c.lobby.exit()
	for {
		turned, to, moves := c.lobby.look()
		switch {
		case c.serving() != nil:
			return ""
		case to != "" && (to != unreached || moves > before):
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

// enter counts a caller in, and says how often the active server had changed. The
// first has the store asked.
func (l *lobby) enter(c *Cell) (moves int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests++; l.guests > 1 {
		return l.moves
	}
	l.link, l.known = "", false
	var asking context.Context
	asking, l.leave = context.WithCancel(context.Background())
	go c.lookEvery(asking, holdPace, func(active store.Node) { l.tell(active.Link) })
	return l.moves
}

func (l *lobby) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests--; l.guests == 0 {
		l.leave()
	}
}

func (l *lobby) look() (turned <-chan struct{}, link string, moves int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turned == nil {
		l.turned = make(chan struct{})
	}
	return l.turned, l.link, l.moves
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
	if news && l.known {
		l.moves++
	}
	l.link, l.known = link, true
	l.mu.Unlock()
	if news {
		l.turn()
	}
}
