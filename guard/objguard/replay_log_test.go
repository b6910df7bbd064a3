package objguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

func records(t *testing.T, l *objguard.Log) (texts []string) {
	t.Helper()
	page, err := l.Read(t.Context(), 0)
	ok(t, err)
	for _, r := range page.Records {
		texts = append(texts, string(r.Data))
	}
	return texts
}

func wantRecords(t *testing.T, l *objguard.Log, want ...string) {
	t.Helper()
	if got := records(t, l); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the log is %q, expected %q", got, want)
	}
}

func appends(t *testing.T, l *objguard.Log, token guard.Token, text string) uint64 {
	t.Helper()
	slot, err := l.Append(t.Context(), holder(token), []byte(text))
	ok(t, err)
	return slot
}

// Deleted slots are free again. A is about to write slot 2; B fences it, writes, and
// truncates; A's create succeeds. (SlateDB 352 and 1622, Delta Lake 1410.)
func TestASlotThatWasTruncatedIsNotReopened(t *testing.T) {
	_, g, before := world()
	a, b := g.Log(resource), g.Log(resource)
	appends(t, a, 1, "a1")
	before(func() {
		ok(t, b.Claim(t.Context(), holder(2)))
		slot := appends(t, b, 2, "b1")
		if n, err := b.Truncate(t.Context(), holder(2), slot); n != 3 || err != nil {
			t.Errorf("%d slots were deleted (%v)", n, err)
		}
	})
	_, err := a.Append(t.Context(), holder(1), []byte("late"))
	wantStale(t, err, 2)
	// The orphan lies there, and nobody reads it.
	wantRecords(t, b)
	slot := appends(t, b, 2, "b2")
	wantRecords(t, b, "b2")
	if n, err := b.Truncate(t.Context(), holder(2), slot); n != 2 || err != nil {
		t.Errorf("%d slots were deleted (%v), expected the orphan's too", n, err)
	}
}

// The boundary is read after the create, not before: B truncates between A's look at the end
// and its write, and A has a fresh handle, which looks.
func TestTheBoundaryIsReadAfterTheSlot(t *testing.T) {
	_, g, before := world()
	appends(t, g.Log(resource), 1, "a1")
	before(func() {
		b := g.Log(resource)
		ok(t, b.Claim(t.Context(), holder(2)))
		_, err := b.Truncate(t.Context(), holder(2), appends(t, b, 2, "b1"))
		ok(t, err)
	})
	_, err := g.Log(resource).Append(t.Context(), holder(1), []byte("late"))
	wantStale(t, err, 2)
}

// A claim that comes late: its fence lands in a slot that was deleted. (SlateDB 1682.)
func TestAFenceBehindTheBoundaryIsNoFence(t *testing.T) {
	_, g, before := world()
	appends(t, g.Log(resource), 1, "a1")
	before(func() {
		c := g.Log(resource)
		ok(t, c.Claim(t.Context(), holder(3)))
		_, err := c.Truncate(t.Context(), holder(3), appends(t, c, 3, "c1"))
		ok(t, err)
	})
	wantStale(t, g.Log(resource).Claim(t.Context(), holder(2)), 3)
}

// A truncates while B claims: B's fence stays.
func TestATruncationLeavesAHigherFence(t *testing.T) {
	_, g, before := world()
	a, b := g.Log(resource), g.Log(resource)
	slot := appends(t, a, 1, "a1")
	// B's second write raises the mark; its fence is there by then, and the mark is A's.
	before(func() {
		before(func() {
			_, err := g.Log(resource).Truncate(t.Context(), holder(1), slot+1)
			wantStale(t, err, 2)
			_, err = a.Append(t.Context(), holder(1), []byte("late"))
			wantStale(t, err, 2)
		})
	})
	ok(t, b.Claim(t.Context(), holder(2)))
	_, err := a.Append(t.Context(), holder(1), []byte("late"))
	wantStale(t, err, 2)
	wantRecords(t, b, "a1")
}

// Two processes of one lease append; their numbers have no gaps and no record is lost.
func TestProcessesOfOneLeaseAppend(t *testing.T) {
	_, g, _ := world()
	a, b := g.Log(resource), g.Log(resource)
	for i := range 5 {
		if n := appends(t, a, 1, "a"); n != uint64(2*i+1) {
			t.Errorf("a's slot is %d", n)
		}
		if n := appends(t, b, 1, "b"); n != uint64(2*i+2) {
			t.Errorf("b's slot is %d", n)
		}
	}
	wantRecords(t, a, "a", "b", "a", "b", "a", "b", "a", "b", "a", "b")
	page, err := a.Read(t.Context(), 9)
	if err != nil || len(page.Records) != 2 || page.Next != 11 {
		t.Errorf("from 9: %+v (%v)", page, err)
	}
	ok(t, a.Claim(t.Context(), holder(1)))
	if _, err := a.Truncate(t.Context(), holder(1), 4); err != nil {
		t.Error(err)
	}
	if _, err := b.Read(t.Context(), 4); !errors.Is(err, objguard.ErrTruncated) {
		t.Errorf("a record that was truncated: %v", err)
	}
	if _, err := b.Truncate(t.Context(), holder(1), 99); err == nil {
		t.Error("a slot that does not exist was truncated")
	}
	wantRecords(t, b, "a", "b", "a", "b", "a", "b")
}

// A new holder truncates and does nothing else: A does not append after that.
func TestATruncationIsAClaim(t *testing.T) {
	_, g, _ := world()
	a := g.Log(resource)
	slot := appends(t, a, 1, "a1")
	_, err := g.Log(resource).Truncate(t.Context(), holder(2), slot)
	ok(t, err)
	_, err = a.Append(t.Context(), holder(1), []byte("late"))
	wantStale(t, err, 2)
}

// readHook runs something before the next read.
type readHook struct {
	*buckettest.Memory
	before *func()
}

func (h readHook) Get(ctx context.Context, key string) (objguard.Object, error) {
	if do := *h.before; do != nil {
		*h.before = nil
		do()
	}
	return h.Memory.Get(ctx, key)
}

// A's record is in its slot in time. Before A reads the boundary, B claims, reads the record
// and truncates: A must not be told that it was refused.
func TestARecordThatWasReadIsNotRefused(t *testing.T) {
	m, g, before := world()
	var read func()
	a, b := objguard.New(readHook{m, &read}, "g").Log(resource), g.Log(resource)
	appends(t, a, 1, "a1")
	before(func() {
		read = func() {
			ok(t, b.Claim(t.Context(), holder(2)))
			wantRecords(t, b, "a1", "a2")
			_, err := b.Truncate(t.Context(), holder(2), appends(t, b, 2, "b1"))
			ok(t, err)
		}
	})
	if _, err := a.Append(t.Context(), holder(1), []byte("a2")); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("the answer is %v", err)
	}
	_, err := a.Append(t.Context(), holder(1), []byte("a3"))
	wantStale(t, err, 2)
}

// The same by another process of A's lease: A must not write the record again.
func TestARecordThatAPeerTruncatedIsNotWrittenAgain(t *testing.T) {
	m, g, before := world()
	var read func()
	a, peer := objguard.New(readHook{m, &read}, "g").Log(resource), g.Log(resource)
	appends(t, a, 1, "a1")
	before(func() {
		read = func() {
			wantRecords(t, peer, "a1", "a2")
			_, err := peer.Truncate(t.Context(), holder(1), 2)
			ok(t, err)
		}
	})
	if _, err := a.Append(t.Context(), holder(1), []byte("a2")); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("the answer is %v", err)
	}
	wantRecords(t, peer)
	appends(t, a, 1, "a3")
	wantRecords(t, peer, "a3")
}

// B's fence has refused A. Then C claims, before B has raised the mark: B's claim took
// effect, since nothing else explains A's refusal.
func TestAFenceThatLandedIsNotRefused(t *testing.T) {
	_, g, before := world()
	appends(t, g.Log(resource), 1, "a1")
	// B's first write is its fence, the second raises the mark.
	before(func() {
		before(func() {
			_, err := g.Log(resource).Append(t.Context(), holder(1), []byte("a2"))
			wantStale(t, err, 2)
			ok(t, g.Log(resource).Claim(t.Context(), holder(3)))
		})
	})
	ok(t, g.Log(resource).Claim(t.Context(), holder(2)))
	_, err := g.Log(resource).Append(t.Context(), holder(2), []byte("b1"))
	wantStale(t, err, 3)
}
