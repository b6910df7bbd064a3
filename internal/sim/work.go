package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/planted"
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

	resource *resource
	life     uint32
	attempt  uint64
	stopped  bool
}

// workPatience is how long a holder waits for a resource's answer.
const workPatience = 1500 * time.Millisecond

func (k *work) begin() {
	k.resource, k.life = k.world.resources[k.lease.name], k.lease.holder.who().life
	if planted.Is("claim left out") {
		k.read()
		return
	}
	k.claim()
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
	return !k.careless && k.lease.holder.trusted(k.lease) == 0
}

// ask sends a request to the resource; got is called with its answer, or lost
// after a while. A request may arrive late, twice or never.
func (k *work) ask(do func() bool, got func(ok bool), lost func()) {
	w, p := k.world, k.lease.holder.who()
	k.attempt++
	mine := k.attempt
	weather := w.weather()
	arrive := func() {
		ok := do()
		if chance(k.rng, weather.Lose) {
			return
		}
		// Not with after: the holder may have died since it asked.
		w.push(event{at: w.now + k.delay(weather), who: p, life: k.life, do: func() {
			if k.attempt == mine {
				k.attempt++
				got(ok)
			}
		}})
	}
	if !chance(k.rng, weather.Lose) {
		w.at(w.now+k.delay(weather), arrive)
	}
	if chance(k.rng, weather.Double) {
		w.at(w.now+between(k.rng, 0, 10*time.Second), func() { do() })
	}
	w.after(p, workPatience, func() {
		if k.attempt == mine {
			lost()
		}
	})
}

func (k *work) delay(x Weather) time.Duration {
	if chance(k.rng, x.Slow) {
		return between(k.rng, 10*time.Millisecond, 6*time.Second)
	}
	return between(k.rng, 50*time.Microsecond, 3*time.Millisecond)
}

func (k *work) fence() guard.Fence {
	return guard.Fence{Resource: k.lease.name, Token: k.lease.token, Cell: cellID}
}

// claim raises the resource's mark before anything is read.
func (k *work) claim() {
	if k.given() {
		k.finish()
		return
	}
	k.ask(func() bool { return k.resource.claim(k.lease, k.fence()) }, func(ok bool) {
		if !ok {
			k.finish()
			return
		}
		k.read()
	}, k.claim)
}

func (k *work) read() {
	if k.writes == 0 || k.given() {
		k.finish()
		return
	}
	k.writes--
	var seen int
	k.ask(func() bool {
		seen = len(k.resource.effects)
		return true
	}, func(bool) {
		k.world.after(k.lease.holder.who(), k.thought(), func() { k.check(seen) })
	}, k.read)
}

func (k *work) thought() time.Duration {
	if k.rng.IntN(10) == 0 {
		return between(k.rng, 0, 3*time.Second)
	}
	return between(k.rng, 0, 150*time.Millisecond)
}

// check looks at the deadline; between it and the write anything may happen.
func (k *work) check(seen int) {
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
func (k *work) write(seen int) {
	if k.stopped {
		return
	}
	k.ask(func() bool { return k.resource.write(k.lease, k.fence(), seen) }, func(ok bool) {
		if !ok {
			k.finish()
			return
		}
		k.read()
	}, k.read)
}

// resource is what the leases of a name protect: a register that remembers who
// wrote, behind a guard.
type resource struct {
	world   *World
	name    string
	state   guard.State
	effects []guard.Token
	// highest is the referee's: the highest token accepted or claimed.
	highest guard.Token
}

func newResource(w *World, name string) *resource { return &resource{world: w, name: name} }

// pass asks the guard.
func (x *resource) pass(l *lease, f guard.Fence) bool {
	next, verdict := guard.Decide(guard.Monotonic, x.state, f.Mark())
	if planted.Is("guard that forgets its mark") {
		next.Seen = 0
	}
	x.state = next
	ok := verdict == guard.Pass || verdict == guard.Advance
	x.world.referee.decided(x, l, ok)
	return ok
}

func (x *resource) claim(l *lease, f guard.Fence) bool {
	ok := x.pass(l, f)
	x.world.tell(l.holder.who().name, "claims %s with token %d: %v", x.name, l.token, ok)
	return ok
}

func (x *resource) write(l *lease, f guard.Fence, seen int) bool {
	ok := x.pass(l, f)
	if ok && planted.Is("guard checked before the write") {
		x.world.at(x.world.now+20*time.Millisecond, func() { x.effect(l, f, seen) })
		return true
	}
	x.world.tell(l.holder.who().name, "writes %s with token %d on version %d: %v", x.name, l.token, seen, ok)
	if ok {
		x.effect(l, f, seen)
	}
	return ok
}

func (x *resource) effect(l *lease, f guard.Fence, seen int) {
	x.world.referee.takesEffect(x, l, seen)
	x.effects = append(x.effects, f.Token)
}
