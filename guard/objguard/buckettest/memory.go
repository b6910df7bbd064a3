package buckettest

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

// Fate is what becomes of one Put or Delete.
type Fate uint8

// The fates of a request. All but Served and Twice answer guard.ErrUnknown.
const (
	// Served: it is done and answered.
	Served Fate = iota
	// Lost: it never arrives.
	Lost
	// Unanswered: it is done, the answer is lost.
	Unanswered
	// Late: it arrives when [Memory.Deliver] is called.
	Late
	// Twice: it is done and answered, and arrives again when Deliver is called.
	Twice
	// Fates is how many there are.
	Fates
)

// Memory is a bucket in memory. Its ETags are hashes of the bodies, as those of S3 are
// for simple uploads. The zero Memory is ready for use.
type Memory struct {
	// PageMax is the length of a page of a listing; 0: 1000.
	PageMax int

	mu      sync.Mutex
	fate    func() Fate
	objects map[string][]byte
	late    []func()
	puts    int
}

var (
	_ objguard.Bucket = (*Memory)(nil)
	_ Faults          = (*Memory)(nil)
)

// Set sets what is asked what becomes of each Put and Delete; nil: all are served. It may
// use the bucket itself: what it does comes before the request.
func (m *Memory) Set(fate func() Fate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fate = fate
}

// Get opens an object.
func (m *Memory) Get(ctx context.Context, key string) (objguard.Object, error) {
	if err := ctx.Err(); err != nil {
		return objguard.Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[key]
	if !ok {
		return objguard.Object{}, fmt.Errorf("%w: %s", objguard.ErrNotFound, key)
	}
	return objguard.Object{Body: io.NopCloser(bytes.NewReader(b)), Size: int64(len(b)), ETag: etag(b)}, nil
}

// Put writes an object under a condition.
func (m *Memory) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	if !c.Valid() {
		return "", fmt.Errorf("put %s: no condition", key)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	if int64(len(b)) != size {
		return "", fmt.Errorf("put %s: %d bytes, announced were %d", key, len(b), size)
	}
	var tag string
	err = m.request(ctx, func() error {
		m.puts++
		old, ok := m.objects[key]
		if c.Absent() && ok || !c.Absent() && (!ok || etag(old) != c.ETag()) {
			return fmt.Errorf("%w: %s", objguard.ErrPrecondition, key)
		}
		if m.objects == nil {
			m.objects = map[string][]byte{}
		}
		m.objects[key] = b
		tag = etag(b)
		return nil
	})
	return tag, err
}

// Delete deletes an object.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.request(ctx, func() error { delete(m.objects, key); return nil })
}

// request does something with the lock held, as its fate will have it.
func (m *Memory) request(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	m.mu.Lock()
	ask := m.fate
	m.mu.Unlock()
	fate := Served
	if ask != nil {
		fate = ask()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if fate == Served || fate == Unanswered || fate == Twice {
		err = do()
	}
	if fate == Late || fate == Twice {
		m.late = append(m.late, func() { _ = do() })
	}
	if fate == Served || fate == Twice {
		return err
	}
	return fmt.Errorf("%w: the answer was lost", guard.ErrUnknown)
}

// Deliver lets the requests arrive that are late, up to n of them, the earliest first.
func (m *Memory) Deliver(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; n > 0 && len(m.late) > 0; n-- {
		do := m.late[0]
		m.late = m.late[1:]
		do()
	}
}

// Puts is how many Puts have arrived.
func (m *Memory) Puts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.puts
}

// List lists keys.
func (m *Memory) List(ctx context.Context, prefix, after string) ([]string, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.PageMax
	if limit == 0 {
		limit = 1000
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	if len(keys) > limit {
		return keys[:limit], true, nil
	}
	return keys, false, nil
}

func etag(b []byte) string {
	sum := md5.Sum(b)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
