package locktable

import (
	"strings"

	"github.com/pawlproject/pawl/internal/bounds"
)

// waitersShown and holdersShown bound those of one name in a listing; with
// pageShown of both a page ends.
const (
	waitersShown = 1000
	holdersShown = 1000
	pageShown    = 2000
	pageBytes    = 1 << 20
)

func (c List) decide(t *Table, now Now, d *Decided) {
	if c.Name != "" {
		var p Page
		if k := t.locks[c.Name]; k != nil && k.seen() {
			p.Locks = append(p.Locks, t.lockView(now, k, c))
		}
		d.reply(c.Ref, 0, p)
		return
	}
	if c.Limit <= 0 || c.Limit > bounds.PageMax {
		c.Limit = bounds.PageMax
	}
	if c.After != "" && !strings.HasPrefix(c.After, c.Prefix) {
		d.refuse(c.Ref, 0, Invalid, "the page token is of another prefix")
		return
	}
	var p Page
	shown, bytes := 0, 0
	c.visit(&t.names, func(name string) bool {
		k := t.locks[name]
		if !k.seen() {
			return true
		}
		if len(p.Locks) == c.Limit || shown >= pageShown || bytes >= pageBytes {
			p.Next = p.Locks[len(p.Locks)-1].Name
			return false
		}
		v := t.lockView(now, k, c)
		p.Locks = append(p.Locks, v)
		shown += len(v.Holders) + len(v.Waiters)
		bytes += len(v.Name) + len(v.Value)
		return true
	})
	d.reply(c.Ref, 0, p)
}

// visit goes through the names that are asked for and may be seen. It looks at
// no other: they may be a million.
func (c List) visit(names *index, visit func(name string) bool) {
	going := true
	for _, p := range c.Prefixes() {
		names.after(p, c.After, func(name string) bool {
			going = visit(name)
			return going
		})
		if !going {
			return
		}
	}
}

// Prefixes are what the names begin with that are asked for and may be seen.
func (c List) Prefixes() []string {
	if c.Within == nil {
		return []string{c.Prefix}
	}
	var all []string
	for _, p := range c.Within {
		switch {
		case strings.HasPrefix(c.Prefix, p):
			all = append(all, c.Prefix)
		case strings.HasPrefix(p, c.Prefix):
			all = append(all, p)
		}
	}
	return all
}

// seen reports whether a name is listed: one that is only observed is free, and
// so is one whose holders are over.
func (l *lock) seen() bool {
	if len(l.queue) > 0 || l.closed != nil || l.claimOnly != nil {
		return true
	}
	for h := range l.live() {
		if !h.session.over {
			return true
		}
	}
	return false
}

func (t *Table) lockView(now Now, k *lock, c List) Lock {
	v := Lock{
		Name: k.name, Slots: k.slots,
		ClosedFor: k.closed.remains(now), ClaimOnlyFor: k.claimOnly.remains(now),
	}
	for l := range k.live() {
		if l.session.over {
			continue
		}
		if k.slots == 0 && len(v.Holders) == holdersShown {
			break
		}
		if len(v.Holders) == 0 {
			v.Value = l.extra.value
		}
		if k.slots > 0 {
			v.InUse++
		}
		if len(v.Holders) < holdersShown {
			v.Holders = append(v.Holders, t.holder(now, l, k))
		}
	}
	if c.WithoutQueue {
		return v
	}
	for _, w := range k.queue[:min(len(k.queue), waitersShown)] {
		x := Waiter{Label: w.acquire.Label, Shared: w.shared(), Identity: w.acquire.Identity}
		if w.session != nil {
			x.Handle = t.handle(w.session)
			if x.Label == "" {
				x.Label = w.session.label
			}
		}
		v.Waiters = append(v.Waiters, x)
	}
	return v
}
