package access

import (
	"fmt"
	"slices"
	"strings"
)

// Right is one thing that an identity may do with the names below a prefix.
type Right uint8

// The rights. None includes another but Admin, which includes all.
const (
	// Read: see who holds and who waits.
	Read Right = iota
	// Hold: acquire, and wait for one's turn.
	Hold
	// Break: end the leases of others.
	Break
	// Admin: all of these, and with the empty prefix the cell's state in full.
	Admin

	rights = 4
)

var rightNames = [rights]string{"read", "hold", "break", "admin"}

func (r Right) String() string { return rightNames[r] }

// ParseRight reads the name of a right.
func ParseRight(s string) (Right, error) {
	if i := slices.Index(rightNames[:], s); i >= 0 {
		return Right(i), nil
	}
	return 0, fmt.Errorf("%.40q is no right; expected one of %s", s, strings.Join(rightNames[:], ", "))
}

// Grant gives rights on every name that begins with a prefix, byte by byte; the empty
// prefix matches every name. A slot's guard line matches exactly when its name does,
// since a prefix has no control character.
type Grant struct {
	Prefix string
	Rights []Right
}

// Limits bound what one identity may take up; 0: the default.
type Limits struct {
	// Streams it may have open at once, over all its connections.
	Streams int
	// Acquires of it that may wait to be decided.
	Acquires int
}

// Identity is somebody who may do something. It does not change.
type Identity struct {
	name   string
	limits Limits
	of     [rights]prefixes
}

// NewIdentity returns an identity that is allowed what the grants say.
func NewIdentity(name string, limits Limits, grants ...Grant) *Identity {
	var all [rights][]string
	for _, g := range grants {
		for _, r := range g.Rights {
			if r == Admin {
				for k := range all {
					all[k] = append(all[k], g.Prefix)
				}
				continue
			}
			all[r] = append(all[r], g.Prefix)
		}
	}
	i := &Identity{name: name, limits: limits}
	for r := range all {
		i.of[r] = newPrefixes(all[r])
	}
	return i
}

// anyone is who everybody is where nobody has to prove anything.
var anyone = NewIdentity("", Limits{}, Grant{Rights: []Right{Admin}})

// Name of the identity; empty where nobody has one.
func (i *Identity) Name() string { return i.name }

// Limits of the identity.
func (i *Identity) Limits() Limits { return i.limits }

// Allow reports whether the identity has a right on a name. Nobody, nil, has
// none.
func (i *Identity) Allow(r Right, name string) bool { return i != nil && i.of[r].cover(name) }

// Denied finds the first of some names on which the identity lacks a right.
func (i *Identity) Denied(r Right, names []string) (name string, denied bool) {
	for _, n := range names {
		if !i.Allow(r, n) {
			return n, true
		}
	}
	return "", false
}

// Anywhere reports whether there is a name on which the identity has a right.
func (i *Identity) Anywhere(r Right) bool { return i != nil && len(i.of[r]) > 0 }

// Everywhere reports whether the identity has a right on every name.
func (i *Identity) Everywhere(r Right) bool { return i.Allow(r, "") }

// Within are the prefixes of the names on which the identity has a right, sorted
// and none a prefix of another: nil for every name, empty for none.
func (i *Identity) Within(r Right) []string {
	switch {
	case i.Everywhere(r):
		return nil
	case i == nil || i.of[r] == nil:
		return []string{}
	}
	return i.of[r]
}

// same reports whether two identities are allowed the same.
func (i *Identity) same(j *Identity) bool {
	if i.name != j.name {
		return false
	}
	for r := range i.of {
		if !slices.Equal(i.of[r], j.of[r]) {
			return false
		}
	}
	return true
}

// prefixes are sorted, and none is a prefix of another.
type prefixes []string

func newPrefixes(all []string) prefixes {
	all = slices.Clone(all)
	slices.Sort(all)
	kept := all[:0]
	for _, p := range all {
		// What a shorter one covers stands right behind it.
		if n := len(kept); n == 0 || !strings.HasPrefix(p, kept[n-1]) {
			kept = append(kept, p)
		}
	}
	return kept
}

// cover reports whether one of the prefixes is one of name. If p is, every text
// between p and name begins with p, so p is the last one that is not above name.
func (all prefixes) cover(name string) bool {
	i, found := slices.BinarySearch(all, name)
	return found || i > 0 && strings.HasPrefix(name, all[i-1])
}
