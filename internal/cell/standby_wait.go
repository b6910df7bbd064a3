package cell

import (
	"context"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
)

// activePollGap is how often the store is asked for the active server while callers
// are held for the answer: once for all of them.
const activePollGap = 100 * time.Millisecond

// standbyWait holds callers until a server takes over.
type standbyWait struct {
	mu      sync.Mutex
	waiting int
	// link is where the active server is reached, as the store said last; known: it
	// has said so since the first caller began to wait.
	link  string
	known bool
	// moves counts how often a known link has changed.
	moves int
	// changed is closed when the link changes, or when this server begins to serve.
	changed chan struct{}
	// stopAsking ends the polling.
	stopAsking context.CancelFunc
}

// WaitForActive keeps a caller at this standby until it knows where to go. A thousand
// such callers cost one query to the store at a time.
//
// It returns
//
//   - when this server serves;
//   - when the active server is not the one that the caller could not reach (unreached),
//     with its address, unless Info names that one already;
//   - when the unreached server serves again, after it was seen to have stopped;
//   - after the caller's patience, or twice the active-ttl, or when ctx ends.
//
// It subscribes to changes before it reads the state, so it misses no take-over in
// between. If the unreached server is killed and started again, the store does not show
// that, and the caller waits until its time is over.
func (c *Cell) WaitForActive(ctx context.Context, unreached string, patience time.Duration) (link string) {
	if to := c.Info().ActiveLink; c.serving() != nil || to != "" && to != unreached {
		return ""
	}
	late := c.o.Clock.NewTimer()
	defer late.Stop()
	late.Reset(min(patience, 2*c.o.ActiveTTL))
	before := c.standby.enter(c)
	defer c.standby.exit()
	for {
		turned, to, moves := c.standby.state()
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
func (l *standbyWait) enter(c *Cell) (moves int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting++; l.waiting > 1 {
		return l.moves
	}
	l.link, l.known = "", false
	var asking context.Context
	asking, l.stopAsking = context.WithCancel(context.Background())
	go c.pollActive(asking, activePollGap, func(active store.Node) { l.setActive(active.Link) })
	return l.moves
}

func (l *standbyWait) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		l.stopAsking()
	}
}

func (l *standbyWait) state() (turned <-chan struct{}, link string, moves int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed, l.link, l.moves
}

// wake has the waiting callers check again.
func (l *standbyWait) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// setActive notes where the active server is.
func (l *standbyWait) setActive(link string) {
	l.mu.Lock()
	news := l.link != link
	if news && l.known {
		l.moves++
	}
	l.link, l.known = link, true
	l.mu.Unlock()
	if news {
		l.wake()
	}
}
