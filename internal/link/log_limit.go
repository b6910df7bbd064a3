package link

import (
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// logGap is the least time between two log lines of one [logLimit].
const logGap = time.Minute

// logLimit bounds how often a line is logged that clients can cause.
type logLimit struct {
	mu sync.Mutex
	// last: when the line was last logged, if logged. skipped: how often it was not since.
	last    clock.Reading
	logged  bool
	skipped int
}

// allow reports whether to log the line now, and how often it was not logged since the
// last time.
func (l *logLimit) allow(now clock.Reading) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged && now.Longer(l.last) < logGap {
		l.skipped++
		return 0, false
	}
	skipped = l.skipped
	l.last, l.logged, l.skipped = now, true, 0
	return skipped, true
}
