package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/session"
)

// Modes is how a world uses its names beyond exclusive locks.
type Modes struct {
	// Slots of each name; 0: it is a lock.
	Slots []uint32
	// Shared, Several, Delay and Value are the chances that a request is for a
	// shared lease, for several names, has a lock-delay, a value.
	Shared, Several, Delay, Value float64
	// Observe: clients watch all names.
	Observe bool
	// Row: take-overs in a row and nothing else, to see whether the dead end.
	Row bool
}

// drawModes leaves every third world to exclusive locks of one name, and makes
// some of a few that are about one thing. It draws from a stream of its own.
func drawModes(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeModes))
	switch n := r.IntN(12); {
	case n < 4:
		return
	case n == 4:
		p.takeOversInARow(r)
		return
	case n == 5:
		p.setBackATakeOver(r)
		return
	case n == 6:
		p.wildClocks(r)
		return
	}
	if r.IntN(8) == 0 {
		for range 1 + r.IntN(3) {
			p.Faults = append(p.Faults, Fault{Kind: StoreTight, At: between(r, time.Second, p.FaultsEnd), For: between(r, time.Second, 6*time.Second)})
		}
	}
	some := func(most float64) float64 { return pick(r, 0, most/2, most) }
	m := &Modes{
		Shared: some(0.9), Several: some(0.6), Delay: some(0.5), Value: some(0.5), Observe: r.IntN(2) == 0,
	}
	p.Modes = m
	p.Names += r.IntN(3)
	for range p.Names {
		m.Slots = append(m.Slots, pick(r, 0, 0, 0, uint32(1+r.IntN(3))))
	}
	for range r.IntN(5) {
		kind := pick(r, Break, ForceBreak)
		p.Faults = append(p.Faults, Fault{Kind: kind, At: between(r, time.Second, p.FaultsEnd), Target: r.IntN(p.Names)})
	}
}

// takeOversInARow makes a world of short tenures, one after the other, in which
// a client dies early.
func (p *Plan) takeOversInARow(r *rand.Rand) {
	p.Modes = &Modes{Slots: make([]uint32, p.Names), Row: true}
	p.Servers, p.ActiveTTL, p.FaultRates = 2+r.IntN(2), time.Second, FaultRates{}
	p.FaultsEnd = 40 * time.Second
	p.Stop, p.End = p.FaultsEnd+6*time.Second, p.FaultsEnd+66*time.Second
	p.Clients[0].TTL = between(r, 4*time.Second, 6*time.Second)
	p.Faults = []Fault{{Kind: CrashClient, Target: p.Clients[0].ID, At: between(r, time.Second, 3*time.Second), For: 36 * time.Second}}
	gap := between(r, 2700*time.Millisecond, 9*time.Second)
	switch r.IntN(3) {
	case 0:
		// Long enough against a tenure that its silence is logged more than once.
		p.Clients[0].TTL, gap = between(r, 9200*time.Millisecond, 10500*time.Millisecond), between(r, 8*time.Second, 8800*time.Millisecond)
	case 1:
		// So long that its first silence in each tenure is little of it.
		p.Clients[0].TTL, gap = between(r, 22*time.Second, 25*time.Second), between(r, 11500*time.Millisecond, 12500*time.Millisecond)
		p.FaultsEnd = 6*gap + 3*time.Second
		p.Stop, p.End = p.FaultsEnd+6*time.Second, p.FaultsEnd+66*time.Second
		p.Faults[0].At, p.Faults[0].For = gap-between(r, time.Second, 4*time.Second), 5*gap
	}
	for at := gap; at < p.FaultsEnd-time.Second; at += gap {
		for target := range p.Servers {
			p.Faults = append(p.Faults, Fault{Kind: StopServer, Target: target, At: at, For: 100 * time.Millisecond})
		}
	}
}

// acquireSpec is what an acquire asks for.
type acquireSpec struct {
	names []string
	mode  locktable.Mode
	slots uint32
	delay time.Duration
	value []byte
	// claims: who asks claims before it acts. ride is for how long the lease may ride.
	claims bool
	ride   time.Duration
}

func (x *acquireSpec) name() string { return strings.Join(x.names, "+") }

// acquireSpec draws what somebody asks for.
func (p *Plan) acquireSpec(r *rand.Rand) acquireSpec {
	all := p.names()
	at := r.IntN(len(all))
	x := acquireSpec{names: []string{all[at]}}
	m := p.Modes
	if m == nil || m.Row {
		return x
	}
	x.slots = m.Slots[at]
	switch {
	case x.slots > 0:
		x.mode = locktable.Slots
	case chance(r, m.Shared):
		x.mode = locktable.Shared
	}
	if chance(r, m.Several) {
		for _, i := range r.Perm(len(all))[:min(len(all), 3)] {
			if i != at && m.Slots[i] == x.slots && len(x.names) < 3 {
				x.names = append(x.names, all[i])
			}
		}
	}
	if chance(r, m.Delay) {
		x.delay = between(r, time.Second, 8*time.Second)
	}
	if chance(r, m.Value) {
		x.value = fmt.Appendf(nil, "value %d", r.IntN(1000))
	}
	p.rides(r, &x)
	return x
}

// ask fills in an acquire.
func (x *acquireSpec) ask(a locktable.Acquire) locktable.Acquire {
	a.Names, a.Mode, a.Slots, a.LockDelay, a.Value = x.names, x.mode, x.slots, x.delay, x.value
	a.Claims, a.RideThrough = x.claims, x.ride
	return a
}

// guardResource is the resource that guards one name of a lease: a slot has one of its
// own.
func guardResource(name string, slot uint32) string {
	if slot == 0 {
		return name
	}
	return fmt.Sprintf("%s\x1f%d", name, slot)
}

// resource of a guard line, made when it is first asked.
func (w *World) resource(line string) *resource {
	x := w.resources[line]
	if x == nil {
		x = newResource(w, line)
		w.resources[line] = x
	}
	return x
}

// holdsAgainst reports whether two leases may not be held together.
func (x *entry) holdsAgainst(l *lease) bool {
	for _, g := range x.grants {
		for _, h := range l.grants {
			if g.Name == h.Name && g.Slot == h.Slot && !(x.mode == locktable.Shared && l.mode == locktable.Shared) {
				return true
			}
		}
	}
	return false
}

func (x *entry) has(name string) bool {
	return slices.ContainsFunc(x.grants, func(g *recordpb.Grant) bool { return g.Name == name })
}

// shows reports whether an answer shows what the log granted.
func (x *entry) shows(l *lease) bool {
	return slices.EqualFunc(x.grants, l.grants, func(g *recordpb.Grant, h locktable.Grant) bool {
		return g.Name == h.Name && g.Slot == h.Slot && guard.Token(g.Fence) == h.Fence
	})
}

// fits holds a grant against those who hold its names already (I2): one
// exclusive holder, or shared ones with one fence, or slots that differ.
func (l *ledger) fits(x *entry) {
	w := l.referee.world
	for _, g := range x.grants {
		if fence := guard.Token(g.Fence); x.mode != locktable.Shared && fence != x.token || fence > x.token {
			w.fail("I2", "token %d of %s has fence %d", x.token, g.Name, fence)
		}
		if x.mode == locktable.Slots && (g.Slot < 1 || g.Slot > x.slots) {
			w.fail("I2", "token %d has slot %d of %s, which has %d", x.token, g.Slot, g.Name, x.slots)
		}
		holders := l.holders[g.Name]
		for _, h := range holders {
			at := slices.IndexFunc(h.grants, func(o *recordpb.Grant) bool { return o.Name == g.Name })
			other := h.grants[at]
			switch {
			case x.mode == locktable.Slots && h.mode == locktable.Slots:
				if other.Slot == g.Slot || h.slots != x.slots {
					w.fail("I2", "slot %d of %s is granted with token %d while token %d has slot %d", g.Slot, g.Name, x.token, h.token, other.Slot)
				}
			case x.mode == locktable.Shared && h.mode == locktable.Shared:
				if other.Fence != g.Fence {
					w.fail("I2", "%s is shared with fence %d by token %d and with fence %d by token %d", g.Name, other.Fence, h.token, g.Fence, x.token)
				}
			default:
				w.fail("I2", "%s is granted with token %d while token %d holds it", g.Name, x.token, h.token)
			}
		}
		if x.mode == locktable.Shared && len(holders) == 0 && guard.Token(g.Fence) != x.token {
			w.fail("I2", "token %d begins to share %s with fence %d", x.token, g.Name, g.Fence)
		}
		l.holders[g.Name] = append(holders, x)
	}
}

var modeOf = map[recordpb.Mode]locktable.Mode{
	recordpb.Mode_MODE_EXCLUSIVE: locktable.Exclusive, recordpb.Mode_MODE_SHARED: locktable.Shared,
	recordpb.Mode_MODE_SLOTS: locktable.Slots,
}

// acquire is a wish as the SDK has it.
func (x *acquireSpec) acquire(try bool) *session.AcquireSpec {
	return &session.AcquireSpec{
		Names: x.names, Shared: x.mode == locktable.Shared, Slots: int(x.slots), Value: x.value, LockDelay: x.delay, Try: try,
		Claims: x.claims, RideThrough: x.ride,
	}
}

// observer is told who holds a name.
type observer struct{ name string }

// observe asks to be told who holds each name.
func (c *client) observe() {
	m := c.world.plan.Modes
	if m == nil || !m.Observe {
		return
	}
	c.ask(func(x *session.Machine) {
		for _, n := range c.world.plan.names() {
			x.Observe(&observer{n}, n)
		}
	})
}

// mistaken names a name whose holder a client that observes does not know.
func (c *client) mistaken() string {
	m := c.world.plan.Modes
	if m == nil || !m.Observe || !c.up {
		return ""
	}
	for _, n := range c.world.plan.names() {
		seen, told := c.seen[n]
		var holder guard.Token
		if all := c.world.referee.ledger.holders[n]; len(all) > 0 {
			return ""
		}
		if !told || seen != holder {
			return fmt.Sprintf("%s observes token %d as the holder of %s, and nobody holds it", c.name, seen, n)
		}
	}
	return ""
}
