package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// slotCounts are numbers of slots near limits: the bits of a machine word, and the
// count from which on the lock table treats many holders differently. The lock table's
// model (test/tables) also tries the largest.
var slotCounts = []uint32{1, 2, 63, 64, 65, 1023, 1024, 1025}

// drawManyHolders has the first name of some worlds have slots, as many as may matter,
// and about as many callers who hold them, so that what others ask for happens
// where they are all taken.
func drawManyHolders(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeManyHolders))
	if p.Modes == nil || p.Modes.Row || p.Full || r.IntN(20) > 0 {
		return
	}
	n := pick(r, slotCounts...)
	p.Modes.Slots[0] = n
	c := drawClient(r, len(p.Clients))
	c.ManyHolders, c.Careless, c.Callers, c.TTL = true, false, int(n)+r.IntN(3), between(r, 4*time.Second, 10*time.Second)
	p.Clients = append(p.Clients, c)
}

// manyHoldersMax bounds the callers of a client with ManyHolders: with more of them a
// history takes too long to check. manyHoldersPause bounds the pause of such a caller.
const (
	manyHoldersMax   = 4
	manyHoldersPause = 500 * time.Millisecond
)

// ManyHolders reports whether more work side by side than can be judged.
func (p *Plan) ManyHolders() bool {
	for _, c := range p.Clients {
		if c.ManyHolders && c.Callers > manyHoldersMax {
			return true
		}
	}
	return false
}

// wishes draws what a caller asks for.
func (c *client) wishes() acquireSpec {
	p := &c.world.plan
	x := p.acquireSpec(c.rng)
	if c.plan.ManyHolders {
		x = acquireSpec{names: p.names()[:1], mode: locktable.Slots, slots: p.Modes.Slots[0], claims: x.claims, ride: x.ride}
	}
	return x
}

// holds keeps a lease of a name with many holders for a while, and lets it go.
func (k *caller) holds() {
	mine := k.cycle
	k.client.world.after(&k.client.process, between(k.client.rng, time.Second, 20*time.Second), func() {
		if k.cycle == mine && k.lease != nil && !k.lease.ended {
			k.release()
		}
	})
}
