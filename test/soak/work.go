package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
)

// readingSlack is taken off every promise: two clocks make up a reading, and
// they may be a little apart.
const readingSlack = 5 * time.Millisecond

// errorPause is the pause after a call that failed.
const errorPause = 10 * time.Millisecond

// work is what all workers share: the ledger, the time, the gate.
type work struct {
	clock clock.Clock
	start clock.Reading

	mu     sync.Mutex
	ledger *ledger
	held   map[*pawl.Lease]struct{}
	// shut is open while the gate is closed; nil while it is open.
	shut chan struct{}

	// unknown counts calls that failed, expired the SDK's leases that ended without
	// their holder's doing, lapsed those of callers without a stream.
	unknown, expired, lapsed atomic.Int64
}

func newWork() *work {
	k := clock.System()
	return &work{clock: k, start: k.Now(), ledger: newLedger(), held: map[*pawl.Lease]struct{}{}}
}

func (w *work) now() moment { return w.clock.Now().Longer(w.start) }

// judge lets f tell the ledger something.
func (w *work) judge(f func(*ledger)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.ledger)
}

func (w *work) floor() (n uint64) {
	w.judge(func(l *ledger) { n = l.floor() })
	return n
}

// shutGate shuts the gate: a client that is granted something now keeps it, as a rule,
// until the gate is opened, so that a kill finds leases that are an instant old.
func (w *work) shutGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut == nil {
		w.shut = make(chan struct{})
	}
}

// openGate lets them go on.
func (w *work) openGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut != nil {
		close(w.shut)
		w.shut = nil
	}
}

// keep stays at the gate, or passes it all the same, so that some releases are
// under way when the server is killed.
func (w *work) keep(ctx context.Context) {
	w.mu.Lock()
	shut := w.shut
	w.mu.Unlock()
	if shut == nil || rand.IntN(10) < 3 {
		return
	}
	select {
	case <-shut:
	case <-ctx.Done():
	}
}

// pause waits for d or for the end of ctx.
func (w *work) pause(ctx context.Context, d time.Duration) {
	t := w.clock.NewTimer()
	defer t.Stop()
	t.Reset(d)
	select {
	case <-t.C():
	case <-ctx.Done():
	}
}

// upTo is a random duration below d.
func upTo(d time.Duration) time.Duration { return rand.N(d) }

// sample takes down until when the leases that are held may be counted on.
func (w *work) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.held { //tidy:unordered each for itself
		w.promised(l)
	}
}

// promised reads the clock first, so that what it takes down is never too late.
func (w *work) promised(l *pawl.Lease) {
	now := w.now()
	if left := l.Remaining(); left > 0 {
		w.ledger.promise(uint64(l.Token()), now+left-readingSlack)
	}
}

// granted takes in a lease of the SDK.
func (w *work) granted(l *pawl.Lease, floor uint64) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger.grant(l.Name(), uint64(l.Token()), floor, now, 0)
	w.promised(l)
	w.held[l] = struct{}{}
}

// releasing takes in that a lease is about to be released.
func (w *work) releasing(l *pawl.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.promised(l)
	delete(w.held, l)
	w.ledger.release(uint64(l.Token()), w.now())
}

// ended takes in that a lease ended without its holder's doing.
func (w *work) ended(l *pawl.Lease) {
	now := w.now()
	w.expired.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, l)
	w.ledger.withdraw(uint64(l.Token()), now)
}

// way is how a worker works.
type way struct {
	// wait bounds the wait for a lease; 0: as long as it takes.
	wait time.Duration
	// try: do not wait in the queue.
	try bool
	// hold bounds how long a lease is held.
	hold time.Duration
}

// turn takes a lease, holds it and gives it back. It reports whether there was
// one.
func (w *work) turn(ctx context.Context, c *pawl.Client, name string, how way) bool {
	asking := ctx
	if how.wait > 0 {
		var stop context.CancelFunc
		asking, stop = context.WithTimeout(ctx, how.wait)
		defer stop()
	}
	acquire := c.Acquire
	if how.try {
		acquire = c.TryAcquire
	}
	floor, asked := w.floor(), w.now()
	l, err := acquire(asking, name)
	var held *pawl.HeldError
	switch {
	case errors.As(err, &held):
		w.judge(func(l *ledger) { l.see(uint64(held.Token), asked) })
		w.pause(ctx, upTo(errorPause))
		return false
	case err != nil:
		w.unknown.Add(1)
		w.pause(ctx, errorPause)
		return false
	}
	w.granted(l, floor)
	w.keep(l.Context())
	if how.hold > 0 {
		holding, stop := context.WithCancel(l.Context())
		defer context.AfterFunc(ctx, stop)()
		w.pause(holding, upTo(how.hold))
		stop()
	}
	w.giveBack(l)
	return true
}

// giveBackMax bounds a release. It goes on behind the caller's back.
const giveBackMax = 5 * time.Second

func (w *work) giveBack(l *pawl.Lease) {
	if l.Context().Err() != nil {
		w.ended(l)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), giveBackMax)
	defer stop()
	w.releasing(l)
	err := l.Release(ctx)
	now := w.now()
	switch {
	case err == nil:
		w.judge(func(g *ledger) { g.end(uint64(l.Token()), now); g.released++ })
	case errors.Is(err, pawl.ErrLost):
		w.judge(func(g *ledger) { g.withdraw(uint64(l.Token()), now) })
	default:
		w.unknown.Add(1)
	}
}

// loop works on a few names, which others work on too, held for moments. Some of
// its calls give up, some do not wait.
func (w *work) loop(ctx context.Context, c *pawl.Client, names int) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("%sloop/%d", prefix, rand.IntN(names))
		how := way{wait: 2 * time.Second, hold: 10 * time.Millisecond}
		switch rand.IntN(8) {
		case 0:
			how.wait = time.Millisecond + upTo(30*time.Millisecond)
		case 1:
			how.try = true
		}
		w.turn(ctx, c, name, how)
	}
}

// holder keeps a name of its own for seconds.
func (w *work) holder(ctx context.Context, c *pawl.Client, name string) {
	for ctx.Err() == nil {
		w.turn(ctx, c, name, way{hold: 5 * time.Second})
	}
}

// queue stands in line with others, for as long as it takes.
func (w *work) queue(ctx context.Context, c *pawl.Client, name string, served *atomic.Int64) {
	for ctx.Err() == nil {
		if w.turn(ctx, c, name, way{hold: 5 * time.Millisecond}) {
			served.Add(1)
		}
	}
}
