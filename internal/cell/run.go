package cell

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

const (
	// renewalGap is how long the renewal of a session with PatientTTL or more waits at
	// most for others, to share a turn, a Confirm and the writes to the connection. A
	// client does not notice a delay of this length.
	renewalGap = 50 * time.Millisecond
	// PatientTTL is from which TTL on renewals wait for each other.
	PatientTTL = 10 * time.Second
	// resignMax bounds the farewell of a clean stop.
	resignMax = 5 * time.Second
)

// loop waits for what happens and has the core decide.
type loop struct {
	cell  *Cell
	core  *step.Core
	store *outage
	clock clock.Clock

	tenure    *tenure
	launches  chan launched
	landings  chan landing
	appenders int
	flights   int // launched and not landed
	confirms  chan error
	snaps     chan snapped
	usages    chan store.Usage
	hints     chan error
	growth    step.Growth
	snapping  bool
	busy      int
	// full: the store refused a batch that is on its way.
	full atomic.Bool
	// held: the last turn left the acquires where they were.
	held bool
}

// snapped is the end of a snapshot, and its size.
type snapped struct {
	bytes int64
	err   error
}

// serve turns until the tenure ends.
func (l *loop) serve(ctx context.Context) error {
	// What is under way ends with the loop, and is waited for.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.launches, l.landings = make(chan launched, store.InFlight), make(chan landing, store.InFlight)
	defer close(l.launches)
	l.confirms, l.snaps, l.usages = make(chan error, 1), make(chan snapped, 1), make(chan store.Usage, 1)
	l.hints = make(chan error, 1)
	l.tenure = &tenure{
		intake: newIntake(), secret: l.core.Table().Secret(), cell: l.core.Table().Cell(),
		outage: l.store, over: make(chan struct{}),
	}
	l.tenure.counts.Store(&published{Counts: l.core.Table().Counts(), batch: l.core.Durable()})
	l.cell.begin(l.tenure, l.core.Epoch())
	err := l.turn(ctx, work)
	clean := ctx.Err() != nil && !final(err)
	// A drill ends with its tenure, and what it kept waiting may land.
	close(l.tenure.over)
	l.store.end()
	l.tenure.intake.close()
	if clean {
		l.drain(work)
	}
	l.cell.finish()
	if clean {
		err = l.resign()
	}
	stop()
	l.wait()
	return err
}

func (l *loop) turn(ctx, work context.Context) error {
	timer, look, gather := l.clock.NewTimer(), l.clock.NewTimer(), l.clock.NewTimer()
	defer timer.Stop()
	defer gather.Stop()
	defer look.Stop()
	look.Reset(0)
	lost := l.store.Lost()
	var acquires []locktable.Command
	for {
		due := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			// A hint, heeded once: a Confirm tells.
			lost = nil
			l.queryTenure(work)
		case err := <-l.hints:
			l.busy--
			if final(err) {
				return err
			}
		case x := <-l.landings:
			if err := l.land(x); err != nil {
				return err
			}
		case err := <-l.confirms:
			if err := l.confirmed(err); err != nil {
				return err
			}
		case x := <-l.snaps:
			l.snapped(x)
		case u := <-l.usages:
			l.used(u)
			look.Reset(max(l.cell.o.ActiveTTL/10, step.Tick))
		case <-look.C():
			l.queryUsage(work)
		case <-l.tenure.intake.ready:
			due = true
		case <-l.tenure.intake.later:
			gather.Reset(renewalGap)
		case <-gather.C():
			due = true
		case <-timer.C():
			due = true
		}
		if l.full.Load() && l.full.Swap(false) {
			l.core.Full()
		}
		if due || l.core.More() {
			// Let those who are about to send do so: a batch gathers more.
			runtime.Gosched()
			l.held = l.core.Backlogged()
			urgent, taken, complete := l.tenure.intake.take(l.held, acquires)
			acquires = taken
			began := l.clock.Now()
			l.core.Step(began, l.clock.Wall(), urgent, taken, complete)
			if l.tenure.traces.any() {
				l.tenure.traces.stepped(l.core, taken, began, l.clock.Now())
			}
			clear(taken)
		} else {
			l.core.Ask(l.clock.Now())
		}
		l.act(work)
		if l.held && !l.core.Backlogged() {
			l.held = false
			l.tenure.intake.wake()
		}
		l.arm(timer)
	}
}

// queryTenure asks the store whether the tenure is over, outside the queue of Confirms:
// one of those may be stuck.
func (l *loop) queryTenure(work context.Context) {
	l.busy++
	go func() {
		ctx, done := context.WithTimeout(work, l.cell.o.ActiveTTL)
		defer done()
		l.hints <- l.store.Confirm(ctx)
	}()
}

// arm sets the time of the next turn that nothing else brings.
func (l *loop) arm(timer clock.Timer) {
	if d := l.core.Next(); d > 0 {
		timer.Reset(d)
	}
}

// act carries out what the core wants done.
func (l *loop) act(work context.Context) {
	a := l.core.Take()
	for _, b := range a.Appends {
		l.busy++
		l.launch(work, launched{b, l.tenure.traces.carries(b.Number)})
	}
	if a.Confirm {
		l.busy++
		go func() {
			ctx, done := context.WithTimeout(work, l.cell.o.ActiveTTL)
			defer done()
			began := l.clock.Now()
			err := l.store.Confirm(ctx)
			if err == nil {
				l.cell.stats.Confirmations.add(l.clock.Now().Longer(began))
			}
			l.confirms <- err
		}()
	}
	if a.Snapshot != nil {
		l.busy++
		go func() {
			err := l.store.Snapshot(work, a.Snapshot.UpTo, a.Snapshot.Chunks())
			l.snaps <- snapped{a.Snapshot.Bytes, err}
		}()
	}
	for i := range a.Groups {
		l.deliver(&a.Groups[i])
	}
}

// deliver lets answers go.
func (l *loop) deliver(g *step.Group) {
	// First, so that the counts are at least as new as every answer.
	if !g.Early {
		l.tenure.counts.Store(&published{Counts: g.Counts, batch: l.core.Durable()})
	}
	tracing := l.tenure.traces.any()
	for i := range g.Replies {
		r := &g.Replies[i]
		l.cell.stats.count(r.Answer)
		answer := r.Answer
		if tracing {
			answer = l.tenure.traces.final(r, l.clock)
		}
		r.To.(Receiver).Receive(r.Number, answer)
	}
	if g.Counts.RolledBack && l.cell.rolledBack.CompareAndSwap(false, true) {
		l.cell.o.Logger.Error("store_rolled_back: a client has seen a token that a lost log granted; "+
			"the counter stands above it now", "cell", l.tenure.cell, "counter", g.Counts.Counter)
	}
}

func (l *loop) land(x landing) error {
	l.busy--
	l.flights--
	if x.err != nil {
		return fmt.Errorf("append batch %d: %w", x.batch.Number, x.err)
	}
	s := &l.cell.stats
	s.Appends.add(x.ended.Longer(x.began))
	s.Batches.Add(1)
	s.Events.Add(uint64(x.batch.Events))
	s.Bytes.Add(uint64(len(x.batch.Raw)))
	l.growth.Add(len(x.batch.Raw))
	if l.growth.Due() {
		l.snapshot()
	}
	// What is still refused says so again.
	l.full.Store(false)
	l.core.Landed(x.batch.Number)
	if l.tenure.traces.any() {
		l.tenure.traces.landed(l.core, x, l.clock.Now())
	}
	return nil
}

func (l *loop) confirmed(err error) error {
	l.busy--
	l.cell.stats.Confirms.Add(1)
	l.core.Answered(err == nil)
	if final(err) {
		return fmt.Errorf("confirm the tenure: %w", err)
	}
	return nil
}

// snapshot asks for one when none is being made.
func (l *loop) snapshot() {
	if !l.snapping {
		l.snapping = true
		l.core.WantSnapshot()
		l.tenure.intake.wake()
	}
}

func (l *loop) snapped(x snapped) {
	l.busy--
	l.snapping = false
	if x.err != nil {
		l.cell.o.Logger.Warn("snapshot", "error", x.err)
		// Not again with the next batch: freezing costs time.
		l.growth.Batches, l.growth.Bytes = l.growth.Batches/2, l.growth.Bytes/2
		return
	}
	l.cell.stats.Snapshots.Add(1)
	l.growth = step.Growth{Snapshot: x.bytes}
}

// queryUsage asks how full the store is.
func (l *loop) queryUsage(work context.Context) {
	l.busy++
	go func() {
		ctx, done := context.WithTimeout(work, l.cell.o.ActiveTTL)
		defer done()
		u, err := l.store.Usage(ctx)
		if err != nil {
			u = *l.cell.usage.Load()
		}
		l.usages <- u
	}()
}

func (l *loop) used(u store.Usage) {
	l.busy--
	if tight := u.Tight(); l.core.SetTight(tight) {
		l.cell.o.Logger.Warn("room in the store changed", "tight", tight, "used", u.Used, "quota", u.Quota, "free", u.Free)
	}
	l.cell.usage.Store(&u)
	if u.WantsSnapshot() && l.growth.DueSoon() {
		l.snapshot()
	}
}

// drain waits, for a bounded time, until what was sent has landed, so that a
// clean stop leaves no answer behind.
func (l *loop) drain(work context.Context) {
	timer := l.clock.NewTimer()
	defer timer.Stop()
	timer.Reset(resignMax)
	for l.core.InFlight() > 0 {
		select {
		case x := <-l.landings:
			if l.land(x) != nil {
				return
			}
			l.act(work)
		case <-timer.C():
			return
		}
	}
}

// resign ends the tenure in favour of nobody. It is a courtesy to the next one.
func (l *loop) resign() error {
	ctx, done := context.WithTimeout(context.Background(), resignMax)
	defer done()
	if err := l.store.Resign(ctx); err != nil && !errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// wait receives the results of everything that is under way. Only appenders without a
// batch are left then; they end when launches is closed.
func (l *loop) wait() {
	for ; l.busy > 0; l.busy-- {
		select {
		case <-l.landings:
		case <-l.confirms:
		case <-l.snaps:
		case <-l.usages:
		case <-l.hints:
		}
	}
}
