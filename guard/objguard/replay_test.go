package objguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// What follows are interleavings that have broken other systems. A is the old holder, with
// token 1, B the new one, with token 2.

const resource = "orders/7"

func holder(t guard.Token) guard.Fence {
	return guard.Fence{Resource: resource, Token: t, Cell: "test-00000000000000aa"}
}

func sets(text string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(text), nil }
}

// world is a bucket and its guard. before is run once, when the next write arrives and
// before it takes effect.
func world() (b *buckettest.Memory, g objguard.Guard, before func(func())) {
	b = &buckettest.Memory{}
	return b, objguard.New(b, "g"), func(do func()) {
		b.Set(func() buckettest.Fate {
			b.Set(nil)
			do()
			return buckettest.Served
		})
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantStale(t *testing.T, err error, seen guard.Token) {
	t.Helper()
	e, is := errors.AsType[*guard.StaleError](err)
	if !is || e.Seen != seen || errors.Is(err, guard.ErrUnknown) {
		t.Fatalf("the answer is %v, expected stale after %d", err, seen)
	}
}

func wantData(t *testing.T, p *objguard.Pointer, want string) {
	t.Helper()
	if got, err := p.Read(t.Context()); err != nil || string(got) != want {
		t.Fatalf("the pointer holds %q (%v), expected %q", got, err, want)
	}
}

func open(ctx context.Context, p *objguard.Pointer, name string) (string, error) {
	o, err := p.Open(ctx, name)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(o.Body)
	return string(text), errors.Join(err, o.Body.Close())
}

func put(names ...string) objguard.Changes {
	c := objguard.Changes{Put: map[string]objguard.Upload{}}
	for _, n := range names {
		c.Put[n] = objguard.Bytes([]byte("content of " + n))
	}
	return c
}

// A CAS fences a state, not a holder: A reads after B has claimed, and its condition holds.
func TestAHolderThatReadsLateIsRefused(t *testing.T) {
	_, g, before := world()
	a, b := g.Pointer(resource), g.Pointer(resource)
	ok(t, a.Update(t.Context(), holder(1), sets("a1")))
	before(func() { ok(t, b.Claim(t.Context(), holder(2))) })
	wantStale(t, a.Update(t.Context(), holder(1), sets("a2")), 2)
	wantStale(t, g.Pointer(resource).Update(t.Context(), holder(1), sets("a3")), 2)
	wantData(t, b, "a1")
}

// The hole of ETags that are hashes: the bytes go from v0 to v1 and back to v0, and a
// condition on v0 holds again.
func TestTheSameBytesAreAnotherVersion(t *testing.T) {
	m, g, _ := world()
	a, peer := g.Pointer(resource), g.Pointer(resource)
	ok(t, a.Update(t.Context(), holder(1), sets("v0")))
	ok(t, peer.Update(t.Context(), holder(1), sets("v1")))
	ok(t, peer.Update(t.Context(), holder(1), sets("v0")))
	puts, olds := m.Puts(), []string{}
	ok(t, a.Update(t.Context(), holder(1), func(old []byte) ([]byte, error) {
		olds = append(olds, string(old))
		return []byte("v2"), nil
	}))
	// The write on the version that A remembered was refused.
	if m.Puts()-puts != 2 || !slices.Equal(olds, []string{"v0", "v0"}) {
		t.Errorf("%d writes arrived, on %q", m.Puts()-puts, olds)
	}
}

// C84: 412 after a lost answer. The write took effect, its repetition is refused: who takes
// that for "lost" cleans up what was committed.
func TestARefusalAfterALostAnswerIsNoRefusal(t *testing.T) {
	m, g, _ := world()
	p := g.Pointer(resource)
	ok(t, p.Claim(t.Context(), holder(1)))
	for _, then := range []func(){
		func() {},
		func() { ok(t, g.Pointer(resource).Update(t.Context(), holder(1), sets("peer"))) },
		func() { ok(t, g.Claim(t.Context(), holder(2))) },
	} {
		writes := 0
		m.Set(func() buckettest.Fate {
			if writes++; writes == 1 {
				return buckettest.Unanswered
			}
			m.Set(nil)
			then()
			return buckettest.Served
		})
		ok(t, p.Update(t.Context(), holder(1), sets("mine")))
	}
	wantData(t, p, "mine")
	wantStale(t, p.Update(t.Context(), holder(1), sets("late")), 2)
}

// silent answers no write.
func silent(m *buckettest.Memory, f buckettest.Fate) {
	m.Set(func() buckettest.Fate { return f })
}

// C84: three outcomes. Where no answer ever comes the outcome is unknown, whatever it was;
// repeated under the same key it takes effect once.
func TestNoAnswerAtAllIsUnknown(t *testing.T) {
	for _, f := range []buckettest.Fate{buckettest.Lost, buckettest.Unanswered, buckettest.Late} {
		m, g, _ := world()
		p := g.Pointer(resource)
		ok(t, p.Claim(t.Context(), holder(1)))
		silent(m, f)
		if err := p.Update(t.Context(), holder(1), sets("x")); !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
			t.Errorf("fate %d: %v", f, err)
		}
		m.Set(nil)
		// The next write that is done closes the door: what is late no longer lands.
		ok(t, p.Update(t.Context(), holder(1), sets("after")))
		m.Deliver(100)
		wantData(t, p, "after")
	}
}

// conditions notes what was written under which condition.
type conditions struct {
	objguard.Bucket
	told func(key string, body []byte, c objguard.Condition) error
}

func (b conditions) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	if err := b.told(key, text, c); err != nil {
		return "", err
	}
	return b.Bucket.Put(ctx, key, strings.NewReader(string(text)), size, c)
}

// C43: a repetition keeps its body and its condition, after 409 and after a lost answer. 409
// does not mean that the object exists.
func TestARepetitionKeepsItsCondition(t *testing.T) {
	for _, first := range []error{objguard.ErrConflict, fmt.Errorf("%w: 503", guard.ErrUnknown)} {
		var told []string
		b := conditions{&buckettest.Memory{}, func(key string, body []byte, c objguard.Condition) error {
			if !c.Valid() {
				t.Errorf("%s is written without a condition", key)
			}
			if told = append(told, fmt.Sprintf("%s %q %+v", key, body, c)); len(told)%2 == 1 {
				return first
			}
			return nil
		}}
		p := objguard.New(b, "").Pointer(resource)
		ok(t, p.Claim(t.Context(), holder(1)))
		ok(t, p.Update(t.Context(), holder(1), sets("x")))
		ok(t, p.Commit(t.Context(), holder(1), put("a")))
		_, err := objguard.New(b, "").Log(resource).Append(t.Context(), holder(1), []byte("x"))
		ok(t, err)
		for i := 0; i+1 < len(told); i += 2 {
			if told[i] != told[i+1] {
				t.Errorf("%s was repeated as %s", told[i], told[i+1])
			}
		}
		if len(told) != 12 {
			t.Errorf("%d writes: %q", len(told), told)
		}
	}
}

// C85: every path that changes something refuses a stale token and leaves no trace.
func TestEveryPathRefusesAStaleToken(t *testing.T) {
	m, g, _ := world()
	ok(t, g.Pointer(resource).Commit(t.Context(), holder(2), put("a")))
	ok(t, g.Pointer(resource).Commit(t.Context(), holder(2), put("a"))) // leaves an object that nothing names
	var slot uint64
	for what, do := range map[string]func(*objguard.Pointer, *objguard.Log) error{
		"claim":  func(p *objguard.Pointer, _ *objguard.Log) error { return p.Claim(t.Context(), holder(1)) },
		"update": func(p *objguard.Pointer, _ *objguard.Log) error { return p.Update(t.Context(), holder(1), sets("x")) },
		"commit": func(p *objguard.Pointer, _ *objguard.Log) error { return p.Commit(t.Context(), holder(1), put("x")) },
		"remove": func(p *objguard.Pointer, _ *objguard.Log) error {
			return p.Commit(t.Context(), holder(1), objguard.Changes{Remove: []string{"a"}})
		},
		"sweep": func(p *objguard.Pointer, _ *objguard.Log) error {
			_, err := p.Sweep(t.Context(), holder(1))
			return err
		},
		"claim the log": func(_ *objguard.Pointer, l *objguard.Log) error { return l.Claim(t.Context(), holder(1)) },
		"append": func(_ *objguard.Pointer, l *objguard.Log) error {
			_, err := l.Append(t.Context(), holder(1), []byte("x"))
			return err
		},
		"truncate": func(_ *objguard.Pointer, l *objguard.Log) error {
			_, err := l.Truncate(t.Context(), holder(1), slot)
			return err
		},
	} {
		// By handles that know nothing, and by those of the new holder.
		for _, fresh := range []bool{true, false} {
			p, l := g.Pointer(resource), g.Log(resource)
			ok(t, p.Update(t.Context(), holder(2), sets("x")))
			slot = appends(t, l, 2, "x")
			if fresh {
				p, l = g.Pointer(resource), g.Log(resource)
			}
			keys, puts := all(t, m), m.Puts()
			if err := do(p, l); !errors.Is(err, guard.ErrStale) {
				t.Errorf("%s, fresh %t: %v", what, fresh, err)
			}
			if now := all(t, m); !slices.Equal(now, keys) || m.Puts() != puts {
				t.Errorf("%s, fresh %t: %d writes arrived; %q became %q", what, fresh, m.Puts()-puts, keys, now)
			}
		}
	}
}

func all(t *testing.T, m *buckettest.Memory) []string {
	t.Helper()
	keys, _, err := m.List(t.Context(), "", "")
	ok(t, err)
	return keys
}

// What a holder remembers of its pointer says nothing about what came since.
func TestAClaimReadsThePointer(t *testing.T) {
	_, g, _ := world()
	a := g.Pointer(resource)
	ok(t, a.Claim(t.Context(), holder(1)))
	ok(t, g.Claim(t.Context(), holder(2)))
	wantStale(t, a.Claim(t.Context(), holder(1)), 2)
}

// A handle is of one resource: neither a fence nor a question of another reaches it.
func TestAHandleIsOfOneResource(t *testing.T) {
	_, g, _ := world()
	other := holder(1)
	other.Resource = "orders/8"
	for what, h := range map[string]interface {
		guard.Claimer
		guard.Seer
	}{"pointer": g.Pointer(resource), "log": g.Log(resource)} {
		if err := h.Claim(t.Context(), other); !errors.Is(err, guard.ErrMalformed) {
			t.Errorf("%s: claimed for another resource: %v", what, err)
		}
		if _, err := h.Seen(t.Context(), other.Resource); !errors.Is(err, guard.ErrMalformed) {
			t.Errorf("%s: the mark of another resource: %v", what, err)
		}
		ok(t, h.Claim(t.Context(), holder(1)))
		if s, err := h.Seen(t.Context(), resource); err != nil || s.Seen != 1 {
			t.Errorf("%s: the mark is %+v (%v)", what, s, err)
		}
	}
}
