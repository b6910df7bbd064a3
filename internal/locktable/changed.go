package locktable

import (
	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
)

// changedMax bounds the leases of a session that ends whose names are told at its
// end. They are freed in portions, and must not be walked through in one.
const changedMax = 64

// changes returns the names that an event concerns which has not been applied yet. The
// remaining time of a holder is this server's own count and in no record: records that
// a session is silent, was heard or has another TTL change no listing.
func (t *Table) changes(d *Decided, e *recordpb.Event) {
	switch e.Kind {
	case recordpb.Kind_KIND_GRANTED, recordpb.Kind_KIND_GRANTED_RIDER:
		for _, g := range e.Grants {
			d.Changed = append(d.Changed, g.Name)
		}
	case recordpb.Kind_KIND_RELEASED, recordpb.Kind_KIND_BREAKING, recordpb.Kind_KIND_BROKEN:
		if l := t.leases[guard.Token(e.Token)]; l != nil {
			d.changed(l)
		}
	case recordpb.Kind_KIND_SESSION_CLOSED, recordpb.Kind_KIND_SESSION_EXPIRED:
		s := t.sessions[idOf(e.Session)]
		if s == nil {
			return
		}
		if s.leases.n > changedMax {
			d.Unnamed = true
			return
		}
		for l := s.leases.head; l != nil; l = l.next {
			d.changed(l)
		}
	case recordpb.Kind_KIND_NAME_CLOSED, recordpb.Kind_KIND_NAME_OPENED,
		recordpb.Kind_KIND_NAME_CLAIM_ONLY, recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER:
		d.Changed = append(d.Changed, e.Name)
	}
}

func (d *Decided) changed(l *lease) {
	l.holds(func(h *hold) { d.Changed = append(d.Changed, h.lock.name) })
}

// Changed keeps names that were changed by events of which it is open whether they
// become durable.
type Changed struct {
	names   index
	unnamed bool
}

// Add takes in what was decided.
func (c *Changed) Add(names []string, unnamed bool) {
	for _, name := range names {
		c.names.add(name)
	}
	c.unnamed = c.unnamed || unnamed
}

// Has reports whether a name is, or may be, among them.
func (c *Changed) Has(name string) bool {
	has := c.unnamed
	c.names.after(name, "", func(first string) bool {
		has = has || first == name
		return false
	})
	return has
}

// Touches reports whether one that is listed, or was, is or may be among them.
func (c *Changed) Touches(l List) bool {
	if l.Name != "" {
		return c.Has(l.Name)
	}
	touched := c.unnamed
	for _, p := range l.Prefixes() {
		c.names.after(p, l.After, func(string) bool {
			touched = true
			return false
		})
	}
	return touched
}
