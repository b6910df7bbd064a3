package step

import (
	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// dropMin is from how many waiting answers on those are dropped whose
	// receivers are gone.
	dropMin = 1 << 16
	// heldMax bounds the answers that wait for one receiver while the store is
	// full: a client could have any number made, and none of them leaves.
	heldMax = 1 << 13
	// listedMax bounds the content of pages that wait: names, with their holders and
	// waiters. A page may show thousands, every caller with the right to read can ask
	// for one, and no page leaves while the store is silent.
	listedMax = 1 << 20
)

// Droppable is a Receiver that may be gone.
type Droppable interface {
	Receiver
	// Gone reports whether the receiver would do nothing with an answer, now and for
	// ever.
	Gone(a locktable.Answer) bool
}

// dropGone drops answers whose receivers are gone, when very many wait: a store may be
// silent or full for long, and a client without an answer asks again. It scans all
// answers when their number has doubled.
func (c *Core) dropGone() {
	if c.waiting <= c.dropAbove {
		return
	}
	held := map[locktable.Ref]int{}
	c.waiting = 0
	left, passed := c.groups[:0], 0
	for i, g := range c.groups {
		rest := g.Replies[:0]
		for _, r := range g.Replies {
			if x, may := r.To.(Droppable); may && x.Gone(r.Answer) {
				continue
			}
			rest = append(rest, r)
			if held[r.To]++; c.unwritten != nil && held[r.To] == heldMax {
				c.out.Groups = append(c.out.Groups, Group{Early: true, Replies: []locktable.Reply{{
					To: r.To, Answer: locktable.Closed{Reason: locktable.Exhausted, Message: fullNow},
				}}})
			}
		}
		clear(g.Replies[len(rest):])
		g.Replies = rest
		c.relist(&g)
		c.waiting += len(rest)
		if len(rest) == 0 && g.events == 0 {
			continue
		}
		left = append(left, g)
		if c.unwritten != nil && i < c.unwritten.passed {
			passed++
		}
	}
	clear(c.groups[len(left):])
	c.groups = left
	if c.unwritten != nil {
		c.unwritten.passed = passed
	}
	c.dropAbove = max(dropMin, 2*c.waiting)
}

// tooMuchListed is why a listing is refused while very much of others waits.
const tooMuchListed = "too many listings wait for the store to confirm them"

// list decides a listing, or refuses it when too much waits that others show.
func (c *Core) list(now locktable.Now, l locktable.List) {
	if c.listed+c.listing >= listedMax {
		c.reply(l.Ref, 0, locktable.Refused{Reason: locktable.Exhausted, Message: tooMuchListed})
		return
	}
	before := len(c.decided.Replies)
	c.table.Decide(now, l, &c.decided)
	c.listing += listedIn(c.decided.Replies[before:])
}

// relist counts what a group shows anew, of which answers were taken out.
func (c *Core) relist(g *Group) {
	if g.listed > 0 {
		n := listedIn(g.Replies)
		c.listed += n - g.listed
		g.listed = n
	}
}

// listedIn is how many names, holders and waiters the pages among answers show.
func listedIn(all []locktable.Reply) (n int) {
	for i := range all {
		p, _ := all[i].Answer.(locktable.Page)
		for k := range p.Locks {
			n += 1 + len(p.Locks[k].Holders) + len(p.Locks[k].Waiters)
		}
	}
	return n
}
