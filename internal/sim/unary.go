package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/trust"
)

// unaryClient is a caller of the HTTP interface: every lease has a session of
// its own, or one that was opened for it; it renews by hand, and repeats a
// request under its request id when the answer is lost.
type unaryClient struct {
	process
	world   *World
	plan    ClientPlan
	network *rand.Rand
	turn    int
	cycle   uint64
	done    bool

	want    *wanted
	lease   *lease
	leaseID locktable.ID
	work    *work
	acts    []*Act
	// anchor and span are the deadline.
	anchor clock.Reading
	span   time.Duration
	// waited is what it waited before the grant, as far as that counts for a ride.
	waited time.Duration
	moods  moods
	// whims are when it hangs up.
	whims *rand.Rand
}

// wanted is one acquire, with all its repetitions.
type wanted struct {
	acquireSpec
	wait    time.Duration
	key     locktable.ID
	session locktable.ID
	asked   time.Duration
	tries   int
	// called is the stamp of its first asking; 0: not asked yet.
	called int64
}

func newUnaryClient(w *World, p ClientPlan) *unaryClient {
	c := &unaryClient{
		world: w, plan: p, process: process{name: fmt.Sprintf("unary%d", p.ID+1)},
		network: w.random(purposeUnary + uint64(p.ID)*2),
	}
	c.rng = w.random(purposeUnary + uint64(p.ID)*2 + 1)
	c.whims = w.random(purposeHangUp + uint64(p.ID))
	c.clock = newClock(w, w.plan.Servers+len(w.plan.Clients)+p.ID)
	c.moods = newMoods(w, &p, purposeUnaryMood)
	return c
}

func (w *World) callerOf(id int) *unaryClient {
	for _, c := range w.callers {
		if c.plan.ID == id {
			return c
		}
	}
	return nil
}

func (c *unaryClient) who() *process { return &c.process }

func (c *unaryClient) trusted(l *lease) time.Duration {
	if l != c.lease || l.ended {
		return 0
	}
	return max(c.span-c.read().Longer(c.anchor), 0)
}

// rideLeft follows docs/http.md: a ride counts from the sending of the last renewal that
// was answered, or of the acquire, and what that waited.
func (c *unaryClient) rideLeft(l *lease) time.Duration {
	if l != c.lease || l.ended || l.ride == 0 {
		return 0
	}
	return max((c.waited+l.ride)*998/1000-c.read().Longer(c.anchor), 0)
}

func (c *unaryClient) read() clock.Reading { return c.clock.read(c.world.now) }

func (c *unaryClient) start() { c.think() }

func (c *unaryClient) crash(down time.Duration) {
	c.world.note(c.name, "crashes")
	c.forget()
	c.life++
	c.frozen = c.world.now
	c.world.after(&c.process, down, c.start)
}

func (c *unaryClient) forget() {
	if c.lease != nil {
		c.lease.ended = true
	}
	c.cycle++
	c.want, c.lease, c.work, c.span = nil, nil, nil, 0
}

func (c *unaryClient) think() {
	w := c.world
	c.forget()
	mine, pause := c.cycle, between(c.rng, 10*time.Millisecond, 3*time.Second)
	if c.plan.HangsUp {
		pause /= 10
	}
	w.after(&c.process, pause, func() {
		if c.cycle != mine {
			return
		}
		if w.now >= w.plan.Stop {
			c.done = true
			return
		}
		c.begin()
	})
}

func (c *unaryClient) begin() {
	w := c.world
	c.want = &wanted{acquireSpec: w.plan.acquireSpec(c.rng), asked: w.now}
	if c.rng.IntN(3) > 0 {
		c.want.wait = between(c.rng, 100*time.Millisecond, 10*time.Second)
	}
	if c.rng.IntN(3) > 0 {
		c.want.key = w.newID()
	}
	if c.rng.IntN(3) > 0 {
		c.acquire()
		return
	}
	id := w.newID()
	c.send(func(ref locktable.Ref) locktable.Command {
		return locktable.OpenSession{Ref: ref, New: id, TTL: c.plan.TTL}
	}, 0, 2*time.Second, func(_ *call, a locktable.Answer) {
		if _, ok := a.(locktable.Opened); !ok {
			c.think()
			return
		}
		c.want.session = id
		c.acquire()
	})
}

// acquire asks, and asks again under the same request id.
func (c *unaryClient) acquire() {
	w := c.world
	want := c.want
	if want.tries++; want.tries == 1 {
		w.referee.keyed[want.key] = w.now
	}
	anchor, acts := c.read(), w.recorder.asks(&c.process, &want.acquireSpec, want.wait == 0)
	if len(acts) > 0 && want.called == 0 {
		want.called = acts[0].Call
	}
	patience, cuts := c.patience(want)
	c.send(func(ref locktable.Ref) locktable.Command {
		id := w.newID()
		a := want.ask(locktable.Acquire{
			Ref: ref, Try: want.wait == 0, Session: want.session, Lease: leaseOf(id[:]), RequestKey: want.key,
		})
		if want.key != (locktable.ID{}) {
			a.Salt = id[:]
		}
		if want.session == (locktable.ID{}) {
			a.Own, a.TTL = ownOf(a.Lease), c.plan.TTL
		}
		return a
	}, want.wait, patience, func(x *call, answer locktable.Answer) {
		switch a := answer.(type) {
		case locktable.Granted:
			id := x.command.(locktable.Acquire).Lease
			if len(a.Salt) > 0 {
				id = leaseOf(a.Salt)
			}
			if want.key != (locktable.ID{}) {
				// Perhaps an earlier asking was.
				for _, a := range acts {
					a.Call = want.called
				}
			}
			c.granted(a, anchor, id, acts)
		case locktable.Refused:
			if a.Reason == locktable.Unavailable && want.tries < 6 {
				c.again(between(c.rng, 10*time.Millisecond, 500*time.Millisecond))
				return
			}
			w.referee.unaryRefused(want, a)
			w.recorder.refused(acts, a)
			c.think()
		default:
			if want.key != (locktable.ID{}) && want.tries < 6 {
				pause := between(c.rng, 10*time.Millisecond, 500*time.Millisecond)
				if cuts {
					pause = c.away()
				}
				c.again(pause)
				return
			}
			c.think()
		}
	})
}

// leaseOf is the id of a lease that was given this salt, and ownOf the id of the
// session that the lease has to itself.
func leaseOf(salt []byte) (l locktable.ID) {
	copy(l[:], salt)
	l[0] = 'L'
	return l
}

func ownOf(l locktable.ID) locktable.ID {
	l[0] = 'S'
	return l
}

func (c *unaryClient) again(pause time.Duration) {
	mine := c.cycle
	c.world.after(&c.process, pause, func() {
		if c.cycle == mine {
			c.acquire()
		}
	})
}

// granted: the deadline counts from the sending of the request that was
// answered, and the TTL from the grant.
func (c *unaryClient) granted(a locktable.Granted, anchor clock.Reading, id locktable.ID, acts []*Act) {
	w := c.world
	session := a.Session
	c.anchor, c.span, c.waited = anchor, trust.Span(a.Waited+a.TTL, trust.DriftPPM), a.Waited
	l := &lease{
		name: c.want.name(), grants: a.Grants, mode: c.want.mode, token: a.Token, holder: c, session: session, claims: c.want.claims,
		ride: c.want.ride,
	}
	c.lease, c.leaseID, c.moods.want, c.moods.given = l, id, a.TTL, a.TTL
	w.note(c.name, "is granted %s with token %d after %v", l.name, l.token, a.Waited)
	w.referee.unaryGranted(c.want, l)
	w.referee.holds(l)
	w.recorder.granted(acts, l)
	c.work = &work{
		world: w, lease: l, rng: c.rng, careless: c.plan.Careless, writes: c.rng.IntN(c.plan.Writes + 1), over: c.release,
	}
	c.renewLater()
	if l.ride > 0 {
		c.look(l)
	}
	c.work.begin()
}

func (c *unaryClient) renewLater() {
	mine := c.cycle
	c.world.after(&c.process, c.moods.ttl()/4, func() {
		if c.cycle == mine && !c.lease.releasing {
			c.renew()
			c.renewLater()
		}
	})
}

func (c *unaryClient) renew() {
	mine, anchor, ttl := c.cycle, c.read(), c.wantedTTL()
	c.send(func(ref locktable.Ref) locktable.Command {
		return locktable.Renew{Ref: ref, Lease: c.leaseID, TTL: ttl}
	}, 0, time.Second, func(_ *call, a locktable.Answer) {
		if c.cycle != mine {
			return
		}
		switch a := a.(type) {
		case locktable.Renewed:
			c.moods.given = a.TTL
			span := trust.Span(a.TTL, trust.DriftPPM)
			if c.lease.trusted() && anchor.Longer(c.anchor)+span > c.span {
				c.anchor, c.span, c.waited = anchor, span, 0
				c.world.referee.believes(c, c.lease.session)
			}
		case locktable.Refused:
			if a.Reason == locktable.Gone && !c.lease.releasing {
				c.world.note(c.name, "loses token %d of %s", c.lease.token, c.lease.name)
				c.work.stop()
				c.think()
			}
		}
	})
}

// release lets go, and repeats that until it is answered or of no more use.
func (c *unaryClient) release() {
	l := c.lease
	if l == nil || l.ended {
		c.think()
		return
	}
	if !l.releasing {
		l.releasing = true
		c.acts = c.world.recorder.asksAbout(&c.process, l, VerbRelease)
		c.world.note(c.name, "releases token %d of %s", l.token, l.name)
	}
	if !l.trusted() {
		c.think()
		return
	}
	mine, asked := c.cycle, c.world.now
	c.send(func(ref locktable.Ref) locktable.Command {
		return locktable.Release{Ref: ref, Lease: c.leaseID}
	}, 0, time.Second, func(x *call, a locktable.Answer) {
		if c.cycle != mine {
			return
		}
		switch a := a.(type) {
		case locktable.Done:
			c.world.referee.released(x, l, asked)
			c.world.recorder.returned(c.acts, l, Done)
			c.think()
		case locktable.Refused:
			if a.Reason != locktable.Unavailable {
				if a.Reason == locktable.Gone {
					c.world.recorder.returned(c.acts, l, Gone)
				}
				c.think()
				return
			}
			c.world.after(&c.process, 50*time.Millisecond, func() {
				if c.cycle == mine {
					c.release()
				}
			})
		default:
			c.release()
		}
	})
}
