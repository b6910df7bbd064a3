package pawl

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/session"
)

type callKind uint8

const (
	callOpen callKind = iota
	callAcquire
	callRelease
	callCheck
	callTTL
)

// call is one question of a caller that waits for its answer. It is decided
// once: by the loop with an answer, or by the caller, which gives up.
type call struct {
	kind callKind
	// What an acquire asks for; ctx lends its values to the lease's context.
	wants acquireSettings
	ctx   context.Context
	// on is the lease that a release or a check names.
	on *Lease
	// ttl is what is asked for, by callTTL.
	ttl time.Duration
	// trace is that of an acquire that is followed.
	trace *trace

	decided atomic.Bool
	done    chan struct{}
	lease   *Lease
	err     error

	// blockedBy is what keeps the request from being granted, or even from standing in
	// line, as the server said last; nil: nothing but others before it.
	blockedBy atomic.Pointer[error]

	// request is that of an acquire, for the loop.
	request *session.Request
}

func newCall(kind callKind) *call { return &call{kind: kind, done: make(chan struct{})} }

// answer gives the caller its answer; false when it has given up.
func (c *call) answer(l *Lease, err error) bool {
	if !c.decided.CompareAndSwap(false, true) {
		return false
	}
	c.lease, c.err = l, err
	close(c.done)
	return true
}

// setBlocked notes what keeps the call; nil: nothing does any more.
func (c *call) setBlocked(trouble error) {
	if trouble == nil {
		c.blockedBy.Store(nil)
		return
	}
	c.blockedBy.Store(&trouble)
}

// giveUp is the caller's; false when the answer was quicker and is, or is about
// to be, there.
func (c *call) giveUp() bool { return c.decided.CompareAndSwap(false, true) }

// wait returns the answer, or given up when ctx ended first.
func (c *call) wait(ctx context.Context) (l *Lease, err error, given bool) {
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.giveUp() {
			return nil, nil, true
		}
		<-c.done
	}
	return c.lease, c.err, false
}
