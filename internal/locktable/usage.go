package locktable

import "fmt"

// usage is what one identity takes up of the cell's limits, or a change of that.
// The identity without a name is everybody, and none is kept of it.
type usage struct{ sessions, leases, waiters, values int }

// charge counts a change, and forgets an identity that has nothing left.
func (t *Table) charge(identity string, more usage) {
	if identity == "" {
		return
	}
	u := t.usage[identity]
	u.sessions += more.sessions
	u.leases += more.leases
	u.waiters += more.waiters
	u.values += more.values
	if u == (usage{}) {
		delete(t.usage, identity)
		return
	}
	put(&t.usage, identity, u)
}

// overdrawn says which share of the cell's limits an identity would pass by so
// much more; empty: none.
func (t *Table) overdrawn(identity string, more usage) string {
	if identity == "" {
		return ""
	}
	u := t.usage[identity]
	for _, x := range []struct {
		what            string
		has, more, most int
	}{
		{"sessions", u.sessions, more.sessions, t.limits.Sessions},
		{"leases", u.leases, more.leases, t.limits.Leases},
		{"waiters", u.waiters, more.waiters, t.limits.Waiters},
		{"bytes of values", u.values, more.values, t.limits.ValueBytes},
	} {
		if x.more > 0 && x.has+x.more > x.most/IdentityShare {
			return fmt.Sprintf("this identity has %d %s; %d more would pass its share of the cell's", x.has, x.what, x.more)
		}
	}
	return ""
}
