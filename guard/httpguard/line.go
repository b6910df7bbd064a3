package httpguard

import (
	"time"

	"github.com/pawlproject/pawl/guard"
)

// line is what a gate knows of one resource. Its decisions are values of its fields alone.
//
// At any time requests of one token at most are in flight: that of the last admission. So
// what a higher token waits for is a number and a time.
type line struct {
	// loaded says that state and admitted are those of the marks.
	loaded   bool
	state    guard.State
	admitted guard.Token
	// flying are the requests in flight, all with the token that was admitted last.
	flying map[*visit]struct{}
	// until is when the last request ends of which nothing is known but that its upstream
	// gives up by then: those that the proxy lost sight of, and after a crash those that
	// an earlier process may have left.
	until time.Time
}

// step is what is to be done about a request.
type step uint8

const (
	// load: read the marks; nothing is known yet.
	load step = iota + 1
	// bounce: the verdict says why.
	bounce
	// raise: raise the mark to the request's token, then look again.
	raise
	// admit: keep that all lower requests have ended, then look again.
	admit
	// pass: the request may run.
	pass
	// wait: lower requests are in flight, or may be until a time.
	wait
)

// next decides about a request that shows m at a time. It changes nothing.
//
// The barrier, and the race that it closes:
//
//  1. A request of the old holder is let in with token 1, and is slow.
//  2. The new holder's first request shows 2. The mark is raised, and that is durable:
//     from here on 1 is refused, also after a restart.
//  3. Let in at once, the new holder's request would reach the resource before the old one
//     of step 1, which then lands on top of it. So it waits until that has ended.
//  4. That all lower requests have ended is durable as well, before the first request of 2
//     begins. A process that crashes between 2 and 4 leaves requests of 1 in flight under a
//     mark of 2: the next process must not take an equal token for one that may go on.
func (l *line) next(m guard.Mark, now time.Time) (step, guard.Verdict) {
	if !l.loaded {
		return load, 0
	}
	_, v := guard.Decide(guard.Monotonic, l.state, m)
	switch {
	case v == guard.Advance:
		return raise, v
	case v != guard.Pass:
		return bounce, v
	case l.admitted == m.Token:
		return pass, v
	case l.quiet(now):
		return admit, v
	}
	return wait, v
}

// quiet reports that nothing is in flight.
func (l *line) quiet(now time.Time) bool {
	return len(l.flying) == 0 && !now.Before(l.until)
}

// after is how long a request has to wait at least; 0: that is not known.
func (l *line) after(now time.Time) time.Duration { return max(l.until.Sub(now), 0) }
