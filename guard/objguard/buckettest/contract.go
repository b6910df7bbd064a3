package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

// Run runs every rule of the contract as a subtest, each on a bucket, or a part of one,
// that open has made for it and that holds nothing.
func Run(t *testing.T, open func(t *testing.T) objguard.Bucket) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if err := r.check(t.Context(), open(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type rule struct {
	name  string
	check func(ctx context.Context, b objguard.Bucket) error
}

var rules = []rule{
	{"what was written is read", written},
	{"created once", createdOnce},
	{"replaced by version", replaced},
	{"a missing object is told", missing},
	{"no write without a condition", unconditional},
	{"keys in order of bytes", listed},
	{"an ended context", ctxEnded},
	{"one of many creates", racedCreate},
	{"one of many writes", racedReplace},
}

func put(ctx context.Context, b objguard.Bucket, key, text string, c objguard.Condition) (string, error) {
	body := []byte(text)
	return b.Put(ctx, key, bytes.NewReader(body), int64(len(body)), c)
}

func wantText(ctx context.Context, b objguard.Bucket, key, text, tag string) error {
	o, err := b.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("get %s: %w", key, err)
	}
	defer o.Body.Close()
	got, err := io.ReadAll(o.Body)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if string(got) != text || o.Size != int64(len(text)) || o.ETag != tag {
		return fmt.Errorf("%s is %.40q of %d bytes with ETag %s, expected %.40q with %s", key, got, o.Size, o.ETag, text, tag)
	}
	return nil
}

func written(ctx context.Context, b objguard.Bucket) error {
	for i, text := range []string{"", "a", "line\nline\x00\xff", string(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))} {
		key := fmt.Sprintf("written/%d/a =2F.b-c_D", i)
		tag, err := put(ctx, b, key, text, objguard.IfAbsent())
		if err != nil || tag == "" {
			return fmt.Errorf("put: ETag %q, %w", tag, err)
		}
		if err := wantText(ctx, b, key, text, tag); err != nil {
			return err
		}
	}
	return nil
}

func createdOnce(ctx context.Context, b objguard.Bucket) error {
	tag, err := put(ctx, b, "once", "first", objguard.IfAbsent())
	if err != nil {
		return err
	}
	for _, text := range []string{"second", "first"} {
		if _, err := put(ctx, b, "once", text, objguard.IfAbsent()); !errors.Is(err, objguard.ErrPrecondition) {
			return fmt.Errorf("create what exists: %v, expected ErrPrecondition", err)
		}
	}
	return wantText(ctx, b, "once", "first", tag)
}

func replaced(ctx context.Context, b objguard.Bucket) error {
	first, err := put(ctx, b, "key", "first", objguard.IfAbsent())
	if err != nil {
		return err
	}
	second, err := put(ctx, b, "key", "second", objguard.IfETag(first))
	if err != nil || second == first {
		return fmt.Errorf("replace: ETag %s after %s: %w", second, first, err)
	}
	for _, tag := range []string{first, `"0123456789abcdef0123456789abcdef"`} {
		if _, err := put(ctx, b, "key", "late", objguard.IfETag(tag)); !errors.Is(err, objguard.ErrPrecondition) {
			return fmt.Errorf("replace a version that is gone: %v, expected ErrPrecondition", err)
		}
	}
	return wantText(ctx, b, "key", "second", second)
}

func missing(ctx context.Context, b objguard.Bucket) error {
	if _, err := b.Get(ctx, "none"); !errors.Is(err, objguard.ErrNotFound) {
		return fmt.Errorf("get what is not there: %v, expected ErrNotFound", err)
	}
	_, err := put(ctx, b, "none", "x", objguard.IfETag(`"0123456789abcdef0123456789abcdef"`))
	if !errors.Is(err, objguard.ErrNotFound) && !errors.Is(err, objguard.ErrPrecondition) {
		return fmt.Errorf("replace what is not there: %v, expected ErrNotFound or ErrPrecondition", err)
	}
	if err := b.Delete(ctx, "none"); err != nil {
		return fmt.Errorf("delete what is not there: %w", err)
	}
	if _, err := put(ctx, b, "gone", "x", objguard.IfAbsent()); err != nil {
		return err
	}
	if err := b.Delete(ctx, "gone"); err != nil {
		return err
	}
	if _, err := b.Get(ctx, "gone"); !errors.Is(err, objguard.ErrNotFound) {
		return fmt.Errorf("get what was deleted: %v, expected ErrNotFound", err)
	}
	_, err = put(ctx, b, "gone", "y", objguard.IfAbsent())
	return err
}

func unconditional(ctx context.Context, b objguard.Bucket) error {
	if _, err := put(ctx, b, "key", "x", objguard.Condition{}); err == nil || errors.Is(err, guard.ErrUnknown) {
		return fmt.Errorf("a write without a condition: %v", err)
	}
	if _, err := b.Get(ctx, "key"); !errors.Is(err, objguard.ErrNotFound) {
		return fmt.Errorf("a write without a condition was made: %v", err)
	}
	return nil
}

func listed(ctx context.Context, b objguard.Bucket) error {
	want := []string{"list/0", "list/00/a", "list/00/b", "list/1", "list/=", "list/A", "list/a"}
	for _, key := range append([]string{"lis", "list-", "listz"}, want...) {
		if _, err := put(ctx, b, key, key, objguard.IfAbsent()); err != nil {
			return err
		}
	}
	for i := range len(want) + 1 {
		after, got := "", []string(nil)
		if i > 0 {
			after = want[i-1]
		}
		for more := true; more; {
			var keys []string
			var err error
			if keys, more, err = b.List(ctx, "list/", after); err != nil {
				return err
			}
			if len(keys) == 0 && more {
				return errors.New("an empty page that is not the last")
			}
			for _, key := range keys {
				got, after = append(got, key), key
			}
		}
		if !slices.Equal(got, want[i:]) {
			return fmt.Errorf("the list is %q, expected %q", got, want[i:])
		}
	}
	return nil
}

func ctxEnded(ctx context.Context, b objguard.Bucket) error {
	over, end := context.WithCancel(ctx)
	end()
	if _, err := b.Get(over, "key"); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("get: %v, expected the context's error", err)
	}
	if _, _, err := b.List(over, "key", ""); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("list: %v, expected the context's error", err)
	}
	if _, err := put(over, b, "key", "x", objguard.IfAbsent()); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("put: %v, expected the context's error", err)
	}
	return nil
}

const racers, rounds = 16, 8

func racedCreate(ctx context.Context, b objguard.Bucket) error {
	for i := range rounds {
		if err := race(ctx, b, fmt.Sprintf("create/%d", i), objguard.IfAbsent()); err != nil {
			return err
		}
	}
	return nil
}

func racedReplace(ctx context.Context, b objguard.Bucket) error {
	for i := range rounds {
		key := fmt.Sprintf("replace/%d", i)
		tag, err := put(ctx, b, key, "first", objguard.IfAbsent())
		if err != nil {
			return err
		}
		if err := race(ctx, b, key, objguard.IfETag(tag)); err != nil {
			return err
		}
	}
	return nil
}

// race has one winner, and the object is the winner's.
func race(ctx context.Context, b objguard.Bucket, key string, c objguard.Condition) error {
	tags, errs := make([]string, racers), make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			<-start
			for range 10 {
				tags[i], errs[i] = put(ctx, b, key, fmt.Sprintf("racer %d", i), c)
				if !errors.Is(errs[i], objguard.ErrConflict) {
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	var won []int
	for i, err := range errs {
		switch {
		case err == nil:
			won = append(won, i)
		case !errors.Is(err, objguard.ErrPrecondition):
			return fmt.Errorf("racer %d: %w", i, err)
		}
	}
	if len(won) != 1 {
		return fmt.Errorf("%d of %d racers won %s", len(won), racers, key)
	}
	return wantText(ctx, b, key, fmt.Sprintf("racer %d", won[0]), tags[won[0]])
}
