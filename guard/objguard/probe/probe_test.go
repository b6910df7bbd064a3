package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

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
