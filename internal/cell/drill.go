package cell

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// RollMax bounds how long after its outage a drill waits for the sessions that were
	// open when it began. It waits no longer than the longest of their TTLs. rollGrace
	// comes on top: in it a server finds that a session's time is up.
	RollMax   = 5 * time.Minute
	rollGrace = 5 * time.Second
	// RollListed bounds the lost sessions, and those whose leases rode, that a drill's
	// report lists, and rollLogged those that the server's log has of each.
	RollListed = 256
	rollLogged = 16
)

// Drill is an outage that somebody asked for: while it lasts the cell answers as one
// whose store has lost its quorum. It ends by itself, whether anybody waits for its
// report or not, and with its tenure.
//
//  1. CallRoll: the table notes which sessions are open. When that is known to be
//     confirmed, the outage begins.
//  2. No answer leaves, and no usable time counts: no session expires. Clients' messages
//     are decided all the same, and answered afterwards.
//  3. The outage ends, and AwaitRoll: sessions that are heard from have returned. Those
//     that do not return expire by their TTL, as after any outage.
//  4. When all have returned or ended, or by EndRoll, the report is written.
type Drill struct {
	tenure *tenure
	clock  clock.Clock
	began  clock.Reading
	lasts  time.Duration
	// outage: it has begun, and is not over.
	outage atomic.Bool

	mu     sync.Mutex
	report DrillReport
	// rollOver is closed when the report has everything about sessions, done when the
	// drill is over.
	rollOver, done chan struct{}
	// err is why there is no report, once done is closed.
	err error
}

// DrillReport tells who lived through a drill and who did not.
type DrillReport struct {
	// Lasted is how long the outage lasted.
	Lasted time.Duration
	// Sessions that were open when it began. Returned are those of them that were heard
	// from afterwards, Missing those that had neither returned nor ended when the report
	// was written.
	Sessions, Returned, Missing int
	// Lost are the first RollListed of LostCount sessions that did not return within
	// their TTL, or that their clients gave up. Rides are the first RollListed of RideCount
	// sessions that returned and had been riding.
	Lost, Rides          []locktable.RollEntry
	LostCount, RideCount int
}

// Receive takes what the table tells of the roll.
func (x *Drill) Receive(_ uint64, a locktable.Answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &x.report
	switch a := a.(type) {
	case locktable.RollEntry:
		list, count := &r.Rides, &r.RideCount
		if a.Lost {
			list, count = &r.Lost, &r.LostCount
		}
		if *count++; len(*list) < RollListed {
			*list = append(*list, a)
		}
	case locktable.RollOver:
		r.Returned, r.Missing = a.Returned, a.Missing
		close(x.rollOver)
	}
}

// Left is how long the outage goes on; 0: it is over, or has not begun, or x is nil.
func (x *Drill) Left() time.Duration {
	if x == nil || !x.outage.Load() {
		return 0
	}
	return max(x.lasts-x.clock.Now().Longer(x.began), 1)
}

// Report waits for the report. The error is a *RefusedError, or that of ctx; the drill
// goes on then.
func (x *Drill) Report(ctx context.Context) (DrillReport, error) {
	select {
	case <-x.done:
		if x.err != nil {
			return DrillReport{}, x.err
		}
		return x.report, nil
	case <-ctx.Done():
		return DrillReport{}, ctx.Err()
	}
}

// Drill begins a drill and waits for its report.
func (c *Cell) Drill(ctx context.Context, lasts time.Duration) (DrillReport, error) {
	x, err := c.BeginDrill(ctx, lasts)
	if err != nil {
		return DrillReport{}, err
	}
	return x.Report(ctx)
}

// BeginDrill begins a drill with an outage of a length, unless one is held. It returns
// when the outage has begun, or fails with a *RefusedError, or ctx's error.
func (c *Cell) BeginDrill(ctx context.Context, lasts time.Duration) (*Drill, error) {
	if err := bounds.ValidDrill(lasts); err != nil {
		return nil, c.refused(locktable.Refused{Reason: locktable.Invalid, Message: err.Error()})
	}
	t := c.serving()
	if t == nil {
		return nil, c.unavailable()
	}
	x := &Drill{tenure: t, clock: c.o.Clock, lasts: lasts, rollOver: make(chan struct{}), done: make(chan struct{})}
	if !t.drill.CompareAndSwap(nil, x) {
		return nil, c.refused(locktable.Refused{Reason: locktable.Conflict, Message: t.drill.Load().held()})
	}
	a, err := c.ask(ctx, func(ref locktable.Ref) locktable.Command { return locktable.CallRoll{Ref: ref, To: x} })
	if err != nil {
		t.intake.add(locktable.EndRoll{To: x})
		t.drill.CompareAndSwap(x, nil)
		return nil, err
	}
	called := a.(locktable.RollCalled)
	x.mu.Lock()
	x.report.Sessions = called.Sessions
	x.mu.Unlock()
	x.began = c.o.Clock.Now()
	x.outage.Store(true)
	t.outage.begin()
	c.o.Logger.Warn("drill: the outage begins; the cell answers as one that lost its quorum",
		"for", lasts, "identity", callerOf(ctx), "sessions", called.Sessions)
	go x.hold(c, min(called.LongestTTL, RollMax)+rollGrace)
	return x, nil
}

// DrillLeft is how long the outage of a drill goes on that is held; 0: none is.
func (c *Cell) DrillLeft() time.Duration {
	if t := c.serving(); t != nil {
		return t.drill.Load().Left()
	}
	return 0
}

// held says that a drill is held, for one that asked for another.
func (x *Drill) held() string {
	if left := x.Left(); left > 0 {
		return fmt.Sprintf("a drill is held already: its outage goes on for %v", left.Round(time.Second))
	}
	return "a drill is held already: it waits for sessions to return"
}

// hold waits for the end of the outage, and then for the roll, up to patience.
func (x *Drill) hold(c *Cell, patience time.Duration) {
	timer := x.clock.NewTimer()
	defer timer.Stop()
	timer.Reset(x.lasts)
	stopped := false
	select {
	case <-timer.C():
	case <-x.tenure.over:
		stopped = true
	}
	lasted := x.clock.Now().Longer(x.began)
	x.outage.Store(false)
	x.tenure.outage.end()
	c.o.Logger.Warn("drill: the outage is over", "lasted", lasted.Round(time.Millisecond))
	if !stopped {
		x.tenure.intake.add(locktable.AwaitRoll{To: x})
		timer.Reset(patience)
		stopped = x.await(timer)
	}
	x.mu.Lock()
	x.report.Lasted = lasted
	x.mu.Unlock()
	if stopped {
		x.err = c.refused(locktable.Refused{
			Reason:  locktable.Cancelled, // not one to ask the next server for
			Message: "the drill ended with the server's tenure, after " + lasted.Round(time.Millisecond).String() + ", and there is no report",
		})
	}
	x.tenure.drill.CompareAndSwap(x, nil)
	x.log(c, stopped)
	close(x.done)
}

// await waits for the sessions of the roll; true: the tenure has ended meanwhile.
func (x *Drill) await(timer clock.Timer) (stopped bool) {
	for {
		select {
		case <-x.rollOver:
			return false
		case <-timer.C():
			// Answered as everything is: when the store has confirmed it.
			x.tenure.intake.add(locktable.EndRoll{To: x})
		case <-x.tenure.over:
			return true
		}
	}
}

// log writes the report to the server's log, as nobody may be there any more to read it.
func (x *Drill) log(c *Cell, stopped bool) {
	if stopped {
		c.o.Logger.Warn("drill: ended with the tenure; there is no report")
		return
	}
	r := &x.report
	c.o.Logger.Warn("drill: report", "lasted", r.Lasted.Round(time.Millisecond), "sessions", r.Sessions,
		"returned", r.Returned, "lost", r.LostCount, "rode", r.RideCount, "missing", r.Missing)
	for _, e := range r.Lost[:min(len(r.Lost), rollLogged)] {
		c.o.Logger.Warn("drill: a session did not return within its TTL",
			"holder", e.Handle, "label", e.Label, "identity", e.Identity, "leases", e.Leases, "names", e.Names)
	}
	for _, e := range r.Rides[:min(len(r.Rides), rollLogged)] {
		c.o.Logger.Info("drill: leases of a session rode",
			"holder", e.Handle, "label", e.Label, "identity", e.Identity, "rode", e.Rode.Round(time.Millisecond), "names", e.Names)
	}
}
