package sim

import (
	"time"
)

// caller is one user of a client: it asks for a name, works under the lease,
// and lets it go, over and over.
type caller struct {
	client  *client
	id      int
	cycle   uint64
	request *request
	lease   *lease
	work    *work
}

// think waits a moment, and goes on unless the world is closing.
func (k *caller) think() {
	c := k.client
	k.cycle++
	mine := k.cycle
	k.request, k.lease, k.work = nil, nil, nil
	pause := between(c.rng, 10*time.Millisecond, 3*time.Second)
	if c.plan.Eager {
		pause = between(c.rng, 0, 100*time.Millisecond)
	}
	if c.plan.ManyHolders {
		pause = between(c.rng, 0, manyHoldersPause)
	}
	c.world.after(&c.process, pause, func() {
		if k.cycle == mine {
			k.begin()
		}
	})
}

func (k *caller) begin() {
	c := k.client
	w := c.world
	if w.now >= w.plan.Stop {
		c.done++
		return
	}
	r := &request{caller: k, acquireSpec: c.wishes(), try: c.rng.IntN(4) == 0}
	k.request = r
	c.asksFor(r)
	if c.rng.IntN(5) > 0 {
		return
	}
	mine := k.cycle
	w.after(&c.process, between(c.rng, time.Millisecond, 3*time.Second), func() {
		if k.cycle == mine {
			k.giveUp()
		}
	})
}

// giveUp withdraws the request if it is still waited for.
func (k *caller) giveUp() {
	r, c := k.request, k.client
	if r == nil || k.lease != nil {
		return
	}
	c.world.note(c.name, "gives up request %d for %s", r.number, r.name())
	c.forget(r)
	k.think()
}

func (k *caller) granted(l *lease) {
	c := k.client
	c.world.note(c.name, "is granted %s with token %d", l.name, l.token)
	k.lease = l
	k.work = &work{
		world: c.world, lease: l, rng: c.rng, careless: c.plan.Careless, writes: c.rng.IntN(c.plan.Writes + 1),
		over: k.release,
	}
	if c.plan.ManyHolders {
		k.holds()
		return
	}
	if c.rng.IntN(8) == 0 {
		k.check()
		return
	}
	k.work.begin()
}

// check asks the server whether the lease is still held, before the work.
func (k *caller) check() {
	k.client.asksFor(&request{caller: k, lease: k.lease, check: true})
}

func (k *caller) checked(r *request, held bool) {
	if k.lease != r.lease {
		return
	}
	switch {
	case held:
		k.work.begin()
	case !r.lease.ended:
		// Nobody said that it is lost: no answer came in time.
		k.release()
	}
}

func (k *caller) release() {
	if k.lease.ended {
		k.think()
		return
	}
	k.lease.releasing = true
	k.client.world.note(k.client.name, "releases token %d of %s", k.lease.token, k.lease.name)
	k.client.asksFor(&request{caller: k, lease: k.lease})
}

// released: the lease is gone, one way or another.
func (k *caller) released() { k.think() }

// refused: nothing came of a request.
func (k *caller) refused(r *request) {
	if k.request == r {
		k.think()
	}
}

// lost ends the work under a lease that is lost; a careless caller does not
// notice.
func (k *caller) lost() {
	switch {
	case k.lease == nil || !k.lease.ended || k.lease.releasing:
	case k.client.plan.Careless && k.work.resource != nil:
	default:
		k.work.stop()
		k.think()
	}
}
