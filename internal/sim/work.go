package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// work is what one lease is used for: claim, then read, think and write, a few
// times. A careless one does not look at its deadline before it writes.
type work struct {
	world    *World
	lease    *lease
	rng      *rand.Rand
	careless bool
	writes   int
	// over is called once, when the work is done or given up.
	over func()

	// resource is the one that is worked on, fence what it is shown; held are all
	// of them.
	resource *resource
	fence    guard.Fence
	held     []guard.Fence
	life     uint32
	attempt  uint64
	stopped  bool
	// doubled: the last request was sent twice.
	doubled bool
}

// operation is one write, which may land more than once.
type operation struct {
	again, done, refused bool
	// sent is when it was, trusted that its holder had reason to, by its own clock.
	sent    time.Duration
	trusted bool
}

// version is what was read: how many effects the resource had, and the number of the last
// write at the place beside it that has no guard.
type version struct {
	effects   int
	unguarded uint64
}

// effect is one write that took effect.
type effect struct {
	token   guard.Token
	sent    time.Duration
	trusted bool
}

// workPatience is how long a holder waits for a resource's answer.
const workPatience = 1500 * time.Millisecond

func (k *work) begin() {
	k.life = k.lease.holder.who().life
	for _, g := range k.lease.grants {
		k.held = append(k.held, guard.Fence{Resource: guardResource(g.Name, g.Slot), Token: g.Fence, Cell: cellID})
	}
	k.turn(0)
	if !k.world.claimsFirst(k.lease) {
		k.read()
		return
	}
	k.claim(0)
}

// stop ends the work without a word.
func (k *work) stop() { k.stopped = true; k.attempt++ }

func (k *work) finish() {
	if !k.stopped {
		k.stop()
		k.over()
	}
}

// given reports that the holder should let go.
func (k *work) given() bool {
	if k.lease.breaking {
		return true
	}
	return !k.careless && !k.lease.trusted()
}

// trusted reports whether a holder may act on its lease, by its own clock.
func (l *lease) trusted() bool { return l.holder.trusted(l) > 0 || l.holder.rideLeft(l) > 0 }

// ask sends a request to the resource; got is called with its answer, or lost
// after a while. A request may arrive late, twice or never.
func (k *work) ask(do func() bool, got func(ok bool), lost func()) {
	w, p := k.world, k.lease.holder.who()
	k.attempt++
	mine := k.attempt
	rates := w.faultRates()
	arrive := func() {
		ok := do()
		if chance(k.rng, rates.Lose) {
			return
		}
		// Not with after: the holder may have died since it asked.
		w.push(event{at: w.now + k.delay(rates), who: p, life: k.life, do: func() {
			if k.attempt == mine {
				k.attempt++
				got(ok)
			}
		}})
	}
	if !chance(k.rng, rates.Lose) {
		w.at(w.now+k.delay(rates), arrive)
	}
	k.doubled = chance(k.rng, rates.Double)
	if k.doubled {
		w.at(w.now+between(k.rng, 0, 10*time.Second), func() { do() })
	}
	w.after(p, workPatience, func() {
		if k.attempt == mine {
			lost()
		}
	})
}

func (k *work) delay(x FaultRates) time.Duration {
	if chance(k.rng, x.Slow) {
		return between(k.rng, 10*time.Millisecond, 6*time.Second)
	}
	return between(k.rng, 50*time.Microsecond, 3*time.Millisecond)
}

// turn goes over to the i-th resource.
func (k *work) turn(i int) {
	k.fence = k.held[i]
	k.resource = k.world.resource(k.fence.Resource)
}

// claim raises the marks of all resources, from the i-th on, before anything is
// read.
func (k *work) claim(i int) {
	if k.given() {
		k.finish()
		return
	}
	k.turn(i)
	x, f := k.resource, k.fence
	k.ask(func() bool { return x.claim(k.lease, f) }, func(ok bool) {
		if !ok {
			k.overtaken()
			k.finish()
			return
		}
		if i+1 < len(k.held) {
			k.claim(i + 1)
			return
		}
		k.read()
	}, func() { k.claim(i) })
}

func (k *work) read() {
	if k.stopped {
		return
	}
	if k.writes == 0 || k.given() {
		k.finish()
		return
	}
	k.writes--
	if n := len(k.held); n > 1 {
		k.turn(k.rng.IntN(n))
	}
	var seen version
	x := k.resource
	k.ask(func() bool {
		seen = version{len(x.effects), x.unguarded}
		return true
	}, func(bool) {
		k.world.after(k.lease.holder.who(), k.thought(), func() { k.check(seen) })
	}, k.read)
}

// thought is how long a holder thinks about what it has read. Who does not claim thinks for
// long, so that a rider that is let work beside it writes meanwhile.
func (k *work) thought() time.Duration {
	if k.rng.IntN(10) == 0 || k.world.plan.Wild || !k.world.claimsFirst(k.lease) {
		return between(k.rng, 0, 3*time.Second)
	}
	return between(k.rng, 0, 150*time.Millisecond)
}

// check looks at the deadline; between it and the write anything may happen.
func (k *work) check(seen version) {
	if k.stopped {
		return
	}
	if k.given() {
		k.finish()
		return
	}
	k.world.after(k.lease.holder.who(), between(k.rng, 0, 2*time.Millisecond), func() { k.write(seen) })
}

// write acts on what was read. An answer that is lost says nothing: the next
// round reads again.
func (k *work) write(seen version) {
	if k.stopped {
		return
	}
	x, f, op := k.resource, k.fence, &operation{sent: k.world.now, trusted: k.lease.trusted()}
	k.ask(func() bool { return x.write(k.lease, f, seen, op) }, func(ok bool) {
		if !ok {
			k.refused(op)
			return
		}
		k.goesOn()
	}, k.read)
	op.again = k.doubled
}

// refused: the holder knows that its write did not take effect, and lets go.
func (k *work) refused(op *operation) {
	if op.done && !op.again {
		k.world.fail("I6", "%s counts a write with token %d as refused, and it took effect", k.lease.holder.who().name, k.lease.token)
	}
	op.refused = !op.again
	k.overtaken()
	k.finish()
}

// overtaken: the guard has refused the lease, and the client is told.
func (k *work) overtaken() {
	if c, ok := k.lease.holder.(*client); ok && k.world.plan.Rides != nil {
		c.tells(k.lease, shows(k.resource.state, k.fence))
	}
}

// goesOn reads and writes again. A rider takes its time, so that it is at work for longer
// than an outage lasts.
func (k *work) goesOn() {
	switch {
	case k.world.plan.Rides != nil && k.world.now > k.world.plan.Stop:
		k.finish()
		return
	case k.lease.ride == 0:
		k.read()
		return
	}
	k.world.after(k.lease.holder.who(), between(k.rng, 0, time.Second), k.read)
}

// resource is what the leases of a name protect: a register that remembers who
// wrote, behind a guard.
type resource struct {
	world   *World
	name    string
	state   guard.State
	effects []effect
	// raised is when the mark rose last, moved that it is held to another cell.
	raised time.Duration
	moved  bool
	// unguarded counts the writes at a place beside the resource that has no guard: all
	// that reach the resource are carried out there, too. writer is who wrote last.
	unguarded uint64
	writer    guard.Token
	// highest is the referee's: the highest token accepted or claimed.
	highest guard.Token
}

func newResource(w *World, name string) *resource { return &resource{world: w, name: name} }

// pass asks the guard.
func (x *resource) pass(l *lease, f guard.Fence) bool {
	next, verdict := guard.Decide(guard.Monotonic, x.state, f.Mark())
	if next.Seen != x.state.Seen {
		x.raised = x.world.now
	}
	x.state = next
	ok := verdict == guard.Pass || verdict == guard.Advance
	x.world.referee.decided(x, f.Token, ok)
	return ok
}

func (x *resource) claim(l *lease, f guard.Fence) bool {
	ok := x.pass(l, f)
	x.world.note(l.holder.who().name, "claims %s with fence %d: %v", x.name, f.Token, ok)
	return ok
}

// write takes effect when the guard lets it pass; that of a reader only finds
// what it read before.
func (x *resource) write(l *lease, f guard.Fence, seen version, op *operation) bool {
	x.writeUnguarded(l, seen.unguarded)
	ok := x.pass(l, f)
	x.world.note(l.holder.who().name, "writes %s with token %d on version %d: %v", x.name, l.token, seen.effects, ok)
	if ok {
		x.effect(l, seen.effects, op)
	}
	return ok
}

func (x *resource) effect(l *lease, seen int, op *operation) {
	x.world.referee.takesEffect(x, l, seen)
	if op.done = true; op.refused {
		x.world.fail("I6", "a write of %s with token %d takes effect, and its holder counts it as refused", x.name, l.token)
	}
	if l.mode != locktable.Shared {
		x.effects = append(x.effects, effect{l.token, op.sent, op.trusted})
	}
}

// writeUnguarded writes what was read there plus one. Where another has written since, its
// update is lost.
func (x *resource) writeUnguarded(l *lease, seen uint64) {
	if x.world.plan.Rides == nil || l.mode == locktable.Shared {
		return
	}
	if x.unguarded != seen && x.writer != l.token {
		x.world.referee.tally.Unguarded++
	}
	x.unguarded++
	x.writer = l.token
}

// move has the resource held to another cell.
func (x *resource) move() {
	x.state, x.moved, x.raised = guard.State{Cell: "another", Seen: 1}, true, x.world.now
}
