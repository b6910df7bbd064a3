package objguard_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// A sweep of any object that nothing names: G lists, A commits it, G deletes it.
func TestASweepSparesWhatACommitIsAboutToName(t *testing.T) {
	m, g, _ := world()
	a := g.Pointer(resource)
	ok(t, a.Claim(t.Context(), holder(1)))
	writes := 0
	m.Set(func() buckettest.Fate {
		// The second write is the manifest's.
		if writes++; writes == 2 {
			m.Set(nil)
			if n, err := g.Pointer(resource).Sweep(t.Context(), holder(1)); n != 0 || err != nil {
				t.Errorf("the sweep deleted %d (%v)", n, err)
			}
		}
		return buckettest.Served
	})
	ok(t, a.Commit(t.Context(), holder(1), put("x")))
	if text, err := open(t.Context(), a, "x"); text != "content of x" || err != nil {
		t.Errorf("the object is %q (%v)", text, err)
	}
}

// A's commit comes after B has claimed and swept its uploads: it does not dangle.
func TestACommitAfterASweepIsRefused(t *testing.T) {
	m, g, _ := world()
	a, b := g.Pointer(resource), g.Pointer(resource)
	ok(t, a.Commit(t.Context(), holder(1), put("kept")))
	writes := 0
	m.Set(func() buckettest.Fate {
		if writes++; writes == 2 {
			m.Set(nil)
			if n, err := b.Sweep(t.Context(), holder(2)); n != 1 || err != nil {
				t.Errorf("the sweep deleted %d (%v), expected the upload", n, err)
			}
		}
		return buckettest.Served
	})
	wantStale(t, a.Commit(t.Context(), holder(1), put("late")), 2)
	if _, err := open(t.Context(), b, "late"); !errors.Is(err, objguard.ErrNotFound) {
		t.Errorf("the late object: %v", err)
	}
	if text, err := open(t.Context(), b, "kept"); text != "content of kept" || err != nil {
		t.Errorf("the object that was committed in time is %q (%v)", text, err)
	}
}

// The sweeper is a zombie: between its listing and its deletes B claims and commits.
func TestASweepByAZombieDeletesNothingThatIsNamed(t *testing.T) {
	m, g, _ := world()
	ok(t, g.Pointer(resource).Commit(t.Context(), holder(1), put("one")))
	ok(t, g.Pointer(resource).Commit(t.Context(), holder(2), put("one", "two")))
	b := g.Pointer(resource)
	// The first delete of A, which sweeps under token 2.
	m.Set(func() buckettest.Fate {
		m.Set(nil)
		ok(t, b.Claim(t.Context(), holder(3)))
		ok(t, b.Commit(t.Context(), holder(3), put("two", "three")))
		return buckettest.Served
	})
	if n, err := g.Pointer(resource).Sweep(t.Context(), holder(2)); n != 1 || err != nil {
		t.Errorf("the zombie deleted %d (%v)", n, err)
	}
	for _, name := range []string{"one", "two", "three"} {
		if _, err := open(t.Context(), b, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the newest holder finds: "two" of token 2.
	if n, err := b.Sweep(t.Context(), holder(4)); n != 1 || err != nil {
		t.Errorf("the next sweep deleted %d (%v)", n, err)
	}
}

// A reader holds a version whose object was replaced and swept.
func TestAReaderReadsThePointerAnew(t *testing.T) {
	m, g, _ := world()
	p := g.Pointer(resource)
	ok(t, p.Commit(t.Context(), holder(1), put("x", "y")))
	old, err := p.Snapshot(t.Context())
	ok(t, err)
	ok(t, p.Commit(t.Context(), holder(2), objguard.Changes{
		Put: map[string]objguard.Upload{"x": objguard.Bytes([]byte("newer"))}, Remove: []string{"y"}, Data: sets("data"),
	}))
	if n, err := p.Sweep(t.Context(), holder(2)); n != 2 || err != nil {
		t.Fatalf("%d were deleted (%v)", n, err)
	}
	if _, err := old.Open(t.Context(), "x"); !errors.Is(err, objguard.ErrNotFound) {
		t.Errorf("the old version opened: %v", err)
	}
	if text, err := open(t.Context(), p, "x"); text != "newer" || err != nil {
		t.Errorf("the newest version is %q (%v)", text, err)
	}
	if _, err := open(t.Context(), p, "y"); !errors.Is(err, objguard.ErrNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	wantData(t, p, "data")

	// Somebody else deletes what is named.
	keys, _, err := m.List(t.Context(), "g/orders=2F7/objects/", "")
	ok(t, err)
	for _, key := range keys {
		ok(t, m.Delete(t.Context(), key))
	}
	if _, err := open(t.Context(), p, "x"); !errors.Is(err, objguard.ErrDangling) {
		t.Errorf("a missing object: %v", err)
	}
}

// A pointer that somebody deletes or takes back is noticed by who wrote it last.
func TestAPointerThatGoesBackIsNoticed(t *testing.T) {
	m, g, _ := world()
	p := g.Pointer(resource)
	ok(t, p.Update(t.Context(), holder(1), sets("x")))
	ok(t, m.Delete(t.Context(), "g/orders=2F7/pawl=pointer"))
	if err := p.Update(t.Context(), holder(1), sets("y")); !errors.Is(err, objguard.ErrReset) {
		t.Errorf("the answer is %v", err)
	}
}

// reader reads on in the body of a request that it gave up, as an HTTP client may, while the
// next one is on its way.
type reader struct {
	*buckettest.Memory
	before io.Reader
}

func (b *reader) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	if b.before == nil {
		b.before = body
		return "", guard.ErrUnknown
	}
	_, _ = b.before.Read(make([]byte, 3))
	return b.Memory.Put(ctx, key, body, size, c)
}

// A body is the next request's alone.
func TestARequestThatEndedReadsNothing(t *testing.T) {
	b := &reader{Memory: &buckettest.Memory{}}
	p := objguard.New(b, "g").Pointer(resource)
	ok(t, p.Commit(t.Context(), holder(1), put("a")))
	if text, err := open(t.Context(), p, "a"); text != "content of a" || err != nil {
		t.Errorf("the object is %q (%v)", text, err)
	}
	if n, err := b.before.Read(make([]byte, 3)); n > 0 || err == nil {
		t.Errorf("%d bytes were read after the commit (%v)", n, err)
	}
}
