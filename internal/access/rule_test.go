package access

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naive is the rule as one would say it.
func naive(grants []Grant, r Right, name string) bool {
	return slices.ContainsFunc(grants, func(g Grant) bool {
		return strings.HasPrefix(name, g.Prefix) && (slices.Contains(g.Rights, r) || slices.Contains(g.Rights, Admin))
	})
}

func TestRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = "ab/\xff"[random.IntN(4)]
		}
		return string(b)
	}
	for range 3000 {
		var grants []Grant
		for range random.IntN(6) {
			g := Grant{Prefix: word(4)}
			for range random.IntN(3) {
				g.Rights = append(g.Rights, Right(random.IntN(rights)))
			}
			grants = append(grants, g)
		}
		i := NewIdentity("x", Limits{}, grants...)
		for range 20 {
			name, r := word(6), Right(random.IntN(rights))
			if i.Allow(r, name) != naive(grants, r, name) {
				t.Fatalf("%v on %q under %v: %t", r, name, grants, i.Allow(r, name))
			}
		}
		for r := range Right(rights) {
			within := i.Within(r)
			if !slices.IsSorted(within) || i.Everywhere(r) != (within == nil) || i.Anywhere(r) != (within == nil || len(within) > 0) {
				t.Fatalf("%v of %v is within %q", r, grants, within)
			}
			for k := 1; k < len(within); k++ {
				if strings.HasPrefix(within[k], within[k-1]) {
					t.Fatalf("%v of %v is within %q, of which one covers another", r, grants, within)
				}
			}
		}
	}
}

func TestIdentityWithoutRightsIsDenied(t *testing.T) {
	var nobody *Identity
	none := NewIdentity("none", Limits{})
	for r := range Right(rights) {
		for _, i := range []*Identity{nobody, none} {
			if i.Allow(r, "") || i.Allow(r, "a") || i.Anywhere(r) || i.Everywhere(r) {
				t.Errorf("%v is allowed to somebody without rights", r)
			}
			if w := i.Within(r); w == nil || len(w) != 0 {
				t.Errorf("nobody sees %q", w)
			}
		}
	}
}

func TestSeveralNamesNeedAll(t *testing.T) {
	i := NewIdentity("x", Limits{}, Grant{"a/", []Right{Hold}})
	if name, denied := i.Denied(Hold, []string{"a/1", "b/1", "c/1"}); !denied || name != "b/1" {
		t.Errorf("denied %t for %q", denied, name)
	}
	if _, denied := i.Denied(Hold, []string{"a/1", "a/2"}); denied {
		t.Error("denied what is allowed")
	}
}

// A prefix has no control character, so a slot's guard line, which is the name,
// U+001F and a number, is covered exactly when the name is.
func TestSlotGuardLineFollowsNameRule(t *testing.T) {
	i := NewIdentity("x", Limits{}, Grant{"gpu/1", []Right{Hold}})
	for _, name := range []string{"gpu/1", "gpu/12", "gpu/", "gpu/2"} {
		if line := name + "\x1f3"; i.Allow(Hold, line) != i.Allow(Hold, name) {
			t.Errorf("%q and its line differ", name)
		}
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	i := NewIdentity("x", Limits{}, Grant{"a/", []Right{Hold}}, Grant{"b/", []Right{Hold}}, Grant{"c/", []Right{Read}})
	names := []string{"a/some/name", "b/other"}
	p, err := NewPolicy(Entry{Identity: i, Credentials: []Digest{DigestOf(secret("x"))}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewGate(p).Admit(with("x"))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, denied := c.Identity().Denied(Hold, names); denied {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
