package small

import (
	"github.com/pawlproject/pawl/guard"
)

// resource is what the name protects: a register that remembers who wrote,
// behind a guard.
type resource struct {
	state   guard.State
	effects []guard.Token
	// highest token accepted or claimed.
	highest guard.Token
	// writes are under way.
	writes []write
}

// write acts on what was read at a version.
type write struct {
	client  int
	token   guard.Token
	version int
}

// pass asks the guard.
func (w *World) pass(token guard.Token) bool {
	x := &w.resource
	f := guard.Fence{Resource: name, Token: token, Cell: cellID}
	next, verdict := guard.Decide(guard.Monotonic, x.state, f.Mark())
	x.state = next
	ok := verdict == guard.Pass || verdict == guard.Advance
	switch {
	case ok && token < x.highest:
		w.fail("I6", "the resource takes token %d after token %d", token, x.highest)
	case !ok && token == w.judge.counter:
		w.fail("I6", "the resource refuses token %d, the last one granted", token)
	}
	if ok {
		x.highest = max(x.highest, token)
	}
	return ok
}

// claim raises the resource's mark before anything is read.
func (c *client) claim() {
	if !c.world.pass(c.token) {
		c.drop()
		return
	}
	c.claimed, c.seen = true, len(c.world.resource.effects)
}

// write has looked at its deadline; when it arrives is another matter.
func (c *client) write() {
	c.writing = true
	x := &c.world.resource
	x.writes = append(x.writes, write{c.id, c.token, c.seen})
}

// arrive has a write reach the resource.
func (w *World) arrive(i int) {
	x := &w.resource
	a := x.writes[i]
	x.writes = append(x.writes[:i:i], x.writes[i+1:]...)
	ok := w.pass(a.token)
	if ok {
		for _, other := range x.effects[a.version:] {
			if other != a.token {
				w.fail("I6", "token %d writes on version %d, and token %d has written since", a.token, a.version, other)
			}
		}
		x.effects = append(x.effects, a.token)
	}
	c := w.clients[a.client]
	if c.token != a.token {
		return
	}
	if c.writing, c.seen = false, len(x.effects); !ok {
		c.drop()
	}
}
