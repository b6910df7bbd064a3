package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// World is one simulated world. It is made, run and thrown away.
type World struct {
	plan Plan
	// now is the true time since the world began. Nobody in it can read it.
	now      time.Duration
	drawn    uint64
	events   events
	trace    trace
	timeline *timeline
	failed   *Failure

	running *coroutine

	disk      *disk
	servers   []*server
	clients   []*client
	callers   []*unaryClient
	quiet     []*quiet
	resources map[string]*resource
	referee   *referee
	// recorder is nil unless somebody wants to know what was asked and told.
	recorder *recorder

	// faultsOver: faults are over; ended: everybody is served.
	faultsOver, ended bool
	ids               uint64
}

// Failure is what the referee found first.
type Failure struct {
	// Invariant that does not hold, I1 … I10, or what else went wrong.
	Invariant string
	What      string
	At        time.Duration
}

func (f *Failure) Error() string { return f.Invariant + ": " + f.What }

// Result of a run.
type Result struct {
	Failure *Failure
	// Trace is the hash of everything that happened, in order.
	Trace uint64
	// Lived is the simulated time.
	Lived time.Duration
	// Timeline is the time line; nil unless asked for.
	Timeline []TimelineEntry
	Tally    Tally
}

// Tally counts what a world saw, to tell whether it tried anything.
type Tally struct {
	Events, Grants, Expiries, Tenures, Refusals, Effects, Rollbacks, TTLs uint64
	// Observed counts answers to observers. Exhausted counts refusals for want of room.
	// Overruns counts moments at which a holder whose clock runs too slow trusts a
	// lease that it has lost. Late counts grants that landed after a roll-back and were
	// decided before what it lost.
	Observed, Exhausted, Overruns, Late uint64
	// Spared counts renewals that were answered while a record could not be written
	// for want of room.
	Spared uint64
	// TakenUp counts places that were kept behind a connection that had ended, and taken
	// up; Lapsed those that were not kept for so long.
	TakenUp, Lapsed uint64
	// Rides counts leases that outlived their deadline, Returns those that a server had
	// afterwards, Overtaken those that a guard ended, Looks how often guards showed their
	// mark, ClaimOnly how often a rider left a name claim-only.
	Rides, Returns, Overtaken, Looks, ClaimOnly uint64
	// Unguarded counts updates that were lost at resources that have no guard and are
	// written with those that have one. Unclaimed counts those that were lost at guarded
	// ones, to writers that do not claim, where nothing is promised.
	Unguarded, Unclaimed uint64
	// Resumed counts take-overs that went on from what a standby had read, Moved those
	// that could not and read the whole log.
	Resumed, Moved uint64
}

// Run plays a plan to its end or to the first failure.
func Run(p Plan, tell bool) Result {
	w := newWorld(p)
	if tell {
		w.timeline = &timeline{}
	}
	w.play()
	return w.result()
}

func (w *World) result() Result {
	r := Result{Failure: w.failed, Trace: uint64(w.trace), Lived: w.now, Tally: w.referee.tally}
	r.Tally.Events = w.drawn
	if w.timeline != nil {
		r.Timeline = w.timeline.entries
	}
	return r
}

func newWorld(p Plan) *World {
	w := &World{plan: p, trace: traceBegin, resources: map[string]*resource{}}
	w.referee = newReferee(w)
	w.disk = newDisk(w)
	for i := range p.Servers {
		w.servers = append(w.servers, newServer(w, i))
	}
	for _, n := range p.names() {
		w.resources[n] = newResource(w, n)
	}
	for i := range p.Clients {
		w.clients = append(w.clients, newClient(w, p.Clients[i]))
	}
	for i := range p.Unary {
		w.callers = append(w.callers, newUnaryClient(w, p.Unary[i]))
	}
	return w
}

func (w *World) play() {
	defer w.bury()
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", "%v", r)
			w.note("referee", "%s", debug.Stack())
		}
	}()
	for _, s := range w.servers {
		s.start(0)
	}
	for _, c := range w.clients {
		c.start()
	}
	for _, c := range w.callers {
		c.start()
	}
	w.at(w.plan.FaultsEnd, w.mend)
	w.at(w.plan.Stop, w.audit)
	if len(w.plan.Quiet) > 0 {
		w.at(w.plan.FaultsEnd+quietAfter+w.plan.longestActiveTTL(), w.overlooked)
	}
	for _, q := range w.plan.Quiet {
		w.at(q.At, func() { w.asks(q) })
	}
	for _, x := range w.plan.WallSteps {
		w.at(x.At, func() { w.stepWall(x) })
	}
	for _, f := range w.plan.Faults {
		w.at(f.At, func() { w.strike(f) })
	}
	// Who records wants to know the rest as well.
	for (w.failed == nil || w.recorder != nil && w.now < w.plan.End) && w.turn() {
	}
}

// turn lets the next event happen; false: the world is at its end.
func (w *World) turn() bool {
	if len(w.events) == 0 {
		w.fail("I10", "nothing more can happen and not everybody is served")
		return false
	}
	e := w.events.pop()
	if p := e.who; p != nil {
		if p.life != e.life {
			return true
		}
		if p.frozen > e.at {
			e.at = p.frozen
			w.push(e)
			return true
		}
	}
	w.now = e.at
	w.trace.mix(uint64(e.at))
	w.trace.mix(e.order)
	e.do()
	return !w.ended
}

// bury ends every coroutine.
func (w *World) bury() {
	for _, s := range w.servers {
		s.die()
	}
}

// fail notes the first failure.
func (w *World) fail(invariant, format string, args ...any) {
	if w.failed == nil {
		w.failed = &Failure{Invariant: invariant, What: fmt.Sprintf(format, args...), At: w.now}
		w.note("referee", "%s %s", invariant, w.failed.What)
	}
}

// at has something happen at a time, to nobody in particular.
func (w *World) at(at time.Duration, do func()) { w.push(event{at: at, do: do}) }

// after has something happen to a process unless it dies before; while it is
// frozen, nothing happens to it.
func (w *World) after(p *process, d time.Duration, do func()) {
	w.push(event{at: w.now + d, who: p, life: p.life, do: do})
}

func (w *World) push(e event) {
	w.drawn++
	e.order = w.drawn
	w.events.push(e)
}

// process is what can be stopped, killed and suspended, and has a clock.
type process struct {
	name       string
	life       uint32
	frozen     time.Duration
	clock      *clockOf
	rng        *rand.Rand
	coroutines []*coroutine
	stalls     []stall
}

// stream of random numbers for one purpose, so that taking a client out of a
// plan leaves the draws of the others alone.
func (w *World) random(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(w.plan.Seed, purpose)) }

// newID draws an id that nobody else has.
func (w *World) newID() (id locktable.ID) {
	w.ids++
	copy(id[:], fmt.Appendf(nil, "%016d", w.ids))
	return id
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(r.Int64N(int64(high-low)))
}

func chance(r *rand.Rand, p float64) bool { return p > 0 && r.Float64() < p }
