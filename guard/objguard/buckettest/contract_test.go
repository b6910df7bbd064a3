package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

// faulty is a bucket with one fault.
type faulty struct {
	*Memory
	put  func(m *Memory, ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error)
	get  func(m *Memory, ctx context.Context, key string) (objguard.Object, error)
	list func(m *Memory, ctx context.Context, prefix, after string) ([]string, bool, error)
}

func (f faulty) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	if f.put == nil {
		return f.Memory.Put(ctx, key, body, size, c)
	}
	return f.put(f.Memory, ctx, key, body, size, c)
}

func (f faulty) Get(ctx context.Context, key string) (objguard.Object, error) {
	if f.get == nil {
		return f.Memory.Get(ctx, key)
	}
	return f.get(f.Memory, ctx, key)
}

func (f faulty) List(ctx context.Context, prefix, after string) ([]string, bool, error) {
	if f.list == nil {
		return f.Memory.List(ctx, prefix, after)
	}
	return f.list(f.Memory, ctx, prefix, after)
}

// force writes whatever the condition.
func force(m *Memory, key string, body io.Reader) (string, error) {
	b, err := io.ReadAll(body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[key] = b
	return etag(b), err
}

// A contract that has caught no planted fault is no contract: each is caught by the rule
// that is about it.
func TestEveryFaultIsCaught(t *testing.T) {
	for _, c := range []struct {
		fault, rule string
		with        faulty
	}{
		{fault: "none"},
		{"conditions are ignored", "created once", faulty{put: func(m *Memory, _ context.Context, key string, body io.ReadSeeker, _ int64, _ objguard.Condition) (string, error) {
			return force(m, key, body)
		}}},
		{"a version is not looked at", "replaced by version", faulty{put: func(m *Memory, ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
			if c.Absent() {
				return m.Put(ctx, key, body, size, c)
			}
			return force(m, key, body)
		}}},
		{"a write without a condition", "no write without a condition", faulty{put: func(m *Memory, ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
			if !c.Valid() {
				return force(m, key, body)
			}
			return m.Put(ctx, key, body, size, c)
		}}},
		{"it checks, then writes", "one of many creates", faulty{put: func(m *Memory, ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
			o, err := m.Get(ctx, key)
			if !c.Valid() || c.Absent() == (err == nil) || !c.Absent() && o.ETag != c.ETag() {
				return m.Put(ctx, key, body, size, c)
			}
			for range 20 {
				runtime.Gosched()
			}
			return force(m, key, body)
		}}},
		{"another error for what is missing", "a missing object is told", faulty{get: func(m *Memory, ctx context.Context, key string) (objguard.Object, error) {
			o, err := m.Get(ctx, key)
			if errors.Is(err, objguard.ErrNotFound) {
				err = errors.New("no such key")
			}
			return o, err
		}}},
		{"a body is cut", "what was written is read", faulty{get: func(m *Memory, ctx context.Context, key string) (objguard.Object, error) {
			o, err := m.Get(ctx, key)
			if err == nil && o.Size > 100 {
				o.Body = io.NopCloser(bytes.NewReader(make([]byte, 100)))
			}
			return o, err
		}}},
		{"a context that ended is not looked at", "an ended context", faulty{list: func(m *Memory, ctx context.Context, prefix, after string) ([]string, bool, error) {
			return m.List(context.WithoutCancel(ctx), prefix, after)
		}}},
		{"keys in any order", "keys in order of bytes", faulty{list: func(m *Memory, ctx context.Context, prefix, after string) ([]string, bool, error) {
			keys, more, err := m.List(ctx, prefix, after)
			slices.Reverse(keys)
			return keys, more, err
		}}},
		{"the key that a listing goes on after is in it", "keys in order of bytes", faulty{list: func(m *Memory, ctx context.Context, prefix, after string) ([]string, bool, error) {
			keys, more, err := m.List(ctx, prefix, after)
			if after != "" {
				keys = append([]string{after}, keys...)
			}
			return keys, more, err
		}}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			for _, r := range rules {
				if c.rule != "" && r.name != c.rule {
					continue
				}
				caught := error(nil)
				for range 20 { // a race may need some
					c.with.Memory = &Memory{PageMax: 3}
					if caught = r.check(t.Context(), c.with); caught != nil {
						break
					}
				}
				if (caught != nil) != (c.rule != "") {
					t.Errorf("the rule %q said %v", r.name, caught)
				}
			}
		})
	}
}

// A judge that lets a wrong answer pass would make the schedules worthless.
func TestJudgeSeesAWrongAnswer(t *testing.T) {
	for what, wrong := range map[string]error{
		"refused though it took effect": &guard.StaleError{Verdict: guard.Stale},
		"another error":                 errors.New("reset"),
	} {
		m := &Memory{}
		p := Play(t.Context(), m, "", m, "update", "r", nil, 2)
		if err := p.Judge(); err != nil {
			t.Fatal(err)
		}
		p.Told["old 1"] = wrong
		if p.Judge() == nil {
			t.Errorf("%s: not seen", what)
		}
	}
	m := &Memory{}
	p := Play(t.Context(), m, "", m, "update", "r", nil, 2)
	p.Told["old 7"] = nil
	if p.Judge() == nil {
		t.Error("done and not there: not seen")
	}
	if _, err := force(m, "r/pawl=pointer", bytes.NewReader(fmt.Appendf(nil, `{"fencing_token":"1","cell":"c","nonce":"n","version":1}`+"\n\"new 9\"\n\"old 1\"\n"))); err != nil {
		t.Fatal(err)
	}
	p.Told = map[string]error{}
	if p.Judge() == nil {
		t.Error("the old holder's after the new one's: not seen")
	}
}
