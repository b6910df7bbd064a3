package objguard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// listHook changes a listing, and runs something before the next one.
type listHook struct {
	*buckettest.Memory
	before *func()
	shown  func(keys []string) []string
}

func (h listHook) List(ctx context.Context, prefix, after string) ([]string, bool, error) {
	if h.before != nil && *h.before != nil {
		do := *h.before
		*h.before = nil
		do()
	}
	keys, more, err := h.Memory.List(ctx, prefix, after)
	if h.shown != nil {
		keys = h.shown(keys)
	}
	return keys, more, err
}

// takesAll is a new holder that claims, reads, and truncates all that there is, its own fence
// too. Then what was late of token 1 lands in that slot.
func takesAll(t *testing.T, m *buckettest.Memory, g objguard.Guard, late int) {
	b := g.Log(resource)
	ok(t, b.Claim(t.Context(), holder(2)))
	page, err := b.Read(t.Context(), 0)
	ok(t, err)
	_, err = b.Truncate(t.Context(), holder(2), page.Next-1)
	ok(t, err)
	m.Deliver(late)
}

// A's append is unknown. B truncates its own fence, which took the slot, and A's write lands
// there late. A finds a record of its own token in the slot: it must not go on behind it.
func TestAnOrphanIsNoRecord(t *testing.T) {
	m, g, _ := world()
	a := g.Log(resource)
	appends(t, a, 1, "a1")
	silent(m, buckettest.Late)
	if _, err := a.Append(t.Context(), holder(1), []byte("a2")); !errors.Is(err, guard.ErrUnknown) {
		t.Fatalf("the answer is %v", err)
	}
	m.Set(nil)
	takesAll(t, m, g, 1)
	_, err := a.Append(t.Context(), holder(1), []byte("late"))
	wantStale(t, err, 2)
	wantRecords(t, g.Log(resource))
}

// The same where A looks for the end of the log, and has read the boundary before B claims.
func TestTheEndIsNoOrphan(t *testing.T) {
	m, g, _ := world()
	appends(t, g.Log(resource), 1, "a1")
	silent(m, buckettest.Late)
	if _, err := g.Log(resource).Append(t.Context(), holder(1), []byte("a2")); !errors.Is(err, guard.ErrUnknown) {
		t.Fatalf("the answer is %v", err)
	}
	m.Set(nil)
	before := func() { takesAll(t, m, g, 1) }
	_, err := objguard.New(listHook{m, &before, nil}, "g").Log(resource).Append(t.Context(), holder(1), []byte("late"))
	wantStale(t, err, 2)
	wantRecords(t, g.Log(resource))
}

// A listing sees every write that was answered before it began. Of two that came meanwhile it
// may show the second alone.
func TestAListingWithAGapHidesNoRecord(t *testing.T) {
	m, g, _ := world()
	a := g.Log(resource)
	for _, text := range []string{"a1", "a2", "a3"} {
		appends(t, a, 1, text)
	}
	second := func(keys []string) []string {
		return slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, "2") })
	}
	reader := objguard.New(listHook{m, nil, second}, "g").Log(resource)
	wantRecords(t, reader, "a1", "a2", "a3")

	// Somebody deleted it without this package: what is behind it is not shown as if it had
	// never been.
	ok(t, m.Delete(t.Context(), "g/orders=2F7/log/00000000000000000002"))
	if page, err := g.Log(resource).Read(t.Context(), 0); !errors.Is(err, objguard.ErrTruncated) {
		t.Errorf("the answer is %+v, %v", page, err)
	}
}

// Two processes of one lease truncate up to the same slot, the second before any read of the
// first.
func TestProcessesOfOneLeaseTruncate(t *testing.T) {
	for n := range 12 {
		m, g, _ := world()
		slot := appends(t, g.Log(resource), 1, "a1")
		var read func()
		l := objguard.New(readHook{m, &read}, "g").Log(resource)
		var count func()
		count = func() {
			if n > 0 {
				n--
				read = count
				return
			}
			_, err := g.Log(resource).Truncate(t.Context(), holder(1), slot)
			ok(t, err)
		}
		read = count
		_, err := l.Truncate(t.Context(), holder(1), slot)
		ok(t, err)
		wantRecords(t, l)
	}
}

// B's fence has refused A. Then C claims and truncates it, before B has read the boundary: B's
// claim may have taken effect, and did.
func TestAFenceThatWasTruncatedIsNotRefused(t *testing.T) {
	m, g, before := world()
	appends(t, g.Log(resource), 1, "a1")
	var read func()
	b := objguard.New(readHook{m, &read}, "g").Log(resource)
	before(func() {
		read = func() {
			_, err := g.Log(resource).Append(t.Context(), holder(1), []byte("a2"))
			wantStale(t, err, 2)
			c := g.Log(resource)
			ok(t, c.Claim(t.Context(), holder(3)))
			_, err = c.Truncate(t.Context(), holder(3), appends(t, c, 3, "c1"))
			ok(t, err)
		}
	})
	if err := b.Claim(t.Context(), holder(2)); !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
		t.Errorf("the answer is %v", err)
	}
	wantStale(t, b.Claim(t.Context(), holder(2)), 3)
}

// A peer truncates B's fence, and the next holder comes: B's claim is not refused either.
func TestAFenceThatAPeerTruncatedIsNotRefused(t *testing.T) {
	m, g, before := world()
	appends(t, g.Log(resource), 1, "a1")
	var read func()
	b := objguard.New(readHook{m, &read}, "g").Log(resource)
	before(func() {
		read = func() {
			_, err := g.Log(resource).Append(t.Context(), holder(1), []byte("a2"))
			wantStale(t, err, 2)
			peer := g.Log(resource)
			_, err = peer.Truncate(t.Context(), holder(2), appends(t, peer, 2, "b1"))
			ok(t, err)
			// The boundary is read, and B looks for the end.
			read = func() { read = func() { ok(t, g.Log(resource).Claim(t.Context(), holder(3))) } }
			read()
		}
	})
	if err := b.Claim(t.Context(), holder(2)); !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
		t.Errorf("the answer is %v", err)
	}
}

// A store that lists in another order, or again what it has shown, is told instead of asked
// for ever; so is an object of somebody else's among the slots.
func TestAListingOutOfOrderIsAnError(t *testing.T) {
	m, g, _ := world()
	p, l := g.Pointer(resource), g.Log(resource)
	ok(t, p.Commit(t.Context(), holder(1), put("a", "b")))
	appends(t, l, 1, "a1")
	appends(t, l, 1, "a2")
	m.PageMax = 1
	for what, shown := range map[string]func([]string) []string{
		"the first page again": func([]string) []string {
			first, _, err := m.List(t.Context(), "g/orders=2F7/log/", "")
			ok(t, err)
			return first
		},
		"keys of others": func([]string) []string { return []string{"z"} },
	} {
		g := objguard.New(listHook{m, nil, shown}, "g")
		if _, err := g.Log(resource).Append(t.Context(), holder(1), []byte("x")); err == nil || errors.Is(err, objguard.ErrBusy) {
			t.Errorf("%s: append: %v", what, err)
		}
		if _, err := g.Pointer(resource).Sweep(t.Context(), holder(2)); err == nil {
			t.Errorf("%s: swept", what)
		}
	}
	m.PageMax = 0
	_, err := m.Put(t.Context(), "g/orders=2F7/log/7", strings.NewReader("x"), 1, objguard.IfAbsent())
	ok(t, err)
	if _, err := g.Log(resource).Append(t.Context(), holder(2), []byte("x")); !errors.Is(err, objguard.ErrForeignObject) {
		t.Errorf("an object of another form: %v", err)
	}
}
