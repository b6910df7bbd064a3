package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// faulty is a store with one fault, or none.
type faulty struct {
	buckettest.Memory
	fault string
}

func (f *faulty) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	o, err := f.Get(ctx, key)
	holds := c.Absent() == (err != nil) && (c.Absent() || o.ETag == c.ETag())
	now := objguard.IfAbsent()
	if err == nil {
		now = objguard.IfETag(o.ETag)
	}
	switch {
	case f.fault == "ignores", f.fault == "inverted" && !holds, f.fault == "makes anew" && err != nil && !c.Absent():
		return f.Memory.Put(ctx, key, body, size, now)
	case f.fault == "inverted":
		return "", objguard.ErrPrecondition
	case f.fault == "checks, then writes" && holds:
		for range 20 {
			runtime.Gosched()
		}
		for {
			if tag, err := f.Memory.Put(ctx, key, body, size, now); err == nil {
				return tag, nil
			}
			o, err := f.Memory.Get(ctx, key)
			if err != nil {
				return "", err
			}
			now = objguard.IfETag(o.ETag)
			if _, err := body.Seek(0, io.SeekStart); err != nil {
				return "", err
			}
		}
	}
	tag, err := f.Memory.Put(ctx, key, body, size, c)
	if f.fault == "one ETag for a length" && err == nil && strings.Contains(key, "/tags-") {
		tag = fmt.Sprintf(`"%d"`, size)
	}
	return tag, err
}

func (f *faulty) Get(ctx context.Context, key string) (objguard.Object, error) {
	o, err := f.Memory.Get(ctx, key)
	if f.fault == "reads a copy" && err == nil && strings.Contains(key, "/reads-") {
		o.Body = io.NopCloser(bytes.NewReader([]byte("older")))
	}
	return o, err
}

// PutUnanswered loses every other write.
func (f *faulty) PutUnanswered(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) error {
	if strings.HasSuffix(key, "0") {
		return guard.ErrUnknown
	}
	if f.fault == "half a body" {
		body, size = bytes.NewReader([]byte("c")), 1
	}
	_, err := f.Put(ctx, key, body, size, c)
	return errors.Join(guard.ErrUnknown, err)
}

func TestProbeNamesTheFault(t *testing.T) {
	for fault, property := range map[string]string{
		"": "", "ignores": Conditions, "inverted": Conditions, "makes anew": Gone, "checks, then writes": Created,
		"one ETag for a length": NewTag, "reads a copy": Reads, "half a body": Resolved,
	} {
		b := &faulty{fault: fault}
		report, err := Run(t.Context(), []objguard.Bucket{b, b}, "here", Options{Rounds: 40, Racers: 16})
		if fault == "inverted" {
			if err == nil || strings.Contains(err.Error(), "clean up") {
				t.Errorf("%s: expected the first write's error and no other, got %v", fault, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", fault, err)
			continue
		}
		found := property == ""
		for _, r := range report.Faults() {
			found = found || r.Property == property && r.Verdict == Broken
		}
		if !found || report.Safe() != (property == "") {
			t.Errorf("%s: %+v", fault, report)
		}
		if keys, _, err := b.List(t.Context(), "", ""); err != nil || len(keys) > 0 {
			t.Errorf("%s: it left %q (%v)", fault, keys, err)
		}
	}
}

// turning turns most of the writers of a race away, and keeps no condition among them.
type turning struct {
	faulty
	writes atomic.Int32
}

func (b *turning) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	race := strings.Contains(key, "/create-") || strings.Contains(key, "/replace-") && !c.Absent()
	if race && b.writes.Add(1)%16 != 1 {
		return "", guard.ErrUnknown
	}
	return b.faulty.Put(ctx, key, body, size, c)
}

// A race in which hardly anybody was answered has shown nothing.
func TestARaceWithoutAnswersIsNotKept(t *testing.T) {
	b := &turning{}
	report, err := Run(t.Context(), []objguard.Bucket{b}, "", Options{Rounds: 3, Racers: 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report {
		if (r.Property == Created || r.Property == Replaced) && r.Verdict != NotTried {
			t.Errorf("%+v", r)
		}
	}
	if report.Safe() {
		t.Error("it is safe")
	}
}

// listing begins where it likes.
type listing struct{ faulty }

func (b *listing) List(ctx context.Context, prefix, _ string) ([]string, bool, error) {
	return b.faulty.List(ctx, prefix, "")
}

func TestAListingFromItsBeginningIsToldBroken(t *testing.T) {
	report, err := Run(t.Context(), []objguard.Bucket{&listing{}}, "", Options{Rounds: 1, Racers: 2})
	if err != nil || report[0].Property != Reads || report[0].Verdict != Broken {
		t.Errorf("%+v (%v)", report, err)
	}
}

// hanging answers nothing.
type hanging struct{ faulty }

func (*hanging) Put(ctx context.Context, _ string, _ io.ReadSeeker, _ int64, _ objguard.Condition) (string, error) {
	<-ctx.Done()
	return "", fmt.Errorf("%w: %w", guard.ErrUnknown, context.Cause(ctx))
}

func (*hanging) List(ctx context.Context, _, _ string) ([]string, bool, error) {
	<-ctx.Done()
	return nil, false, ctx.Err()
}

// A store that hangs is told within half a minute; the clean-up hangs too.
func TestAStoreThatHangsIsToldSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := Run(t.Context(), []objguard.Bucket{&hanging{}}, "", Options{})
		if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "no answer within") || took > 30*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestWhatIsNeededAndNotTriedIsNotSafe(t *testing.T) {
	b := &faulty{}
	report, err := Run(t.Context(), []objguard.Bucket{b}, "", Options{Rounds: 1, Racers: 2, Need: []string{Parts}})
	if err != nil || report.Safe() || report.Faults()[0].Property != Parts || report.Faults()[0].Verdict != NotTried {
		t.Errorf("%+v (%v)", report, err)
	}
	if _, err := Run(t.Context(), []objguard.Bucket{b}, "", Options{Need: []string{"luck"}}); err == nil {
		t.Error("a need that is none passed")
	}
	if _, err := Run(t.Context(), nil, "", Options{}); err == nil {
		t.Error("no bucket passed")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Run(ended, []objguard.Bucket{b}, "", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that ended: %v", err)
	}
}
