package objguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// ErrBusy: other writers came first, each time. Nothing was done; repeat it.
var ErrBusy = errors.New("objguard: other writers came first, nothing was done")

const (
	// casTries is how often a write is begun anew because another came first.
	casTries = 64
	// putTries is how often the same conditional request is sent while its answer is
	// missing.
	putTries = 5
	// pauseMin is the pause before the first repetition; it doubles up to pauseMax.
	pauseMin = 10 * time.Millisecond
	pauseMax = 200 * time.Millisecond
)

// Guard guards resources in one bucket. It holds nothing but the bucket and may be
// copied and used by many goroutines.
type Guard struct {
	bucket Bucket
	prefix string
}

var (
	_ guard.Claimer = Guard{}
	_ guard.Seer    = Guard{}
)

// New returns the guard of a bucket, below a prefix that nobody else writes to. A slash
// is added to a prefix that is not empty and has none at its end.
func New(b Bucket, prefix string) Guard {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return Guard{bucket: b, prefix: prefix}
}

// Claim raises the mark of the pointer of f.Resource to f, see [guard.Claimer] and
// [Pointer.Claim]. It does not claim a [Log] of the same resource.
func (g Guard) Claim(ctx context.Context, f guard.Fence) error {
	return g.Pointer(f.Resource).Claim(ctx, f)
}

// Seen returns the cell and the highest token of the pointer of a resource, see
// [guard.Seer]; the zero State when it has seen none.
func (g Guard) Seen(ctx context.Context, resource string) (guard.State, error) {
	v, err := g.read(ctx, g.key(resource, pointerName))
	if err != nil {
		return guard.State{}, err
	}
	return v.state(), nil
}

// key is where something of a resource lies.
func (g Guard) key(resource, rest string) string {
	return g.prefix + keyName(resource) + "/" + rest
}

// shown returns nil for a fence that may be shown at a resource.
func shown(f guard.Fence, resource string) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if f.Resource != resource {
		return fmt.Errorf("%w: a fence of %q at %q", guard.ErrMalformed, f.Resource, resource)
	}
	return nil
}

// refusal returns nil where what has seen s lets f pass.
func refusal(s guard.State, f guard.Fence) error {
	_, v := guard.Decide(guard.Monotonic, s, f.Mark())
	return v.Err(f.Resource, s, f.Mark())
}

// turn is taken by one write at a time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, until ctx ends.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (t turn) give() { <-t }

// version is one version of a pointer. The zero version is a pointer that does not
// exist.
type version struct {
	header
	data []byte
	etag string
}

// read reads a pointer. Absent is the zero version and no error.
func (g Guard) read(ctx context.Context, key string) (version, error) {
	body, etag, err := g.get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return version{}, nil
	}
	if err != nil {
		return version{}, err
	}
	h, data, err := decode(body)
	if err == nil && h.Version == 0 {
		err = fmt.Errorf("%w: a pointer without a version", ErrForeignObject)
	}
	if err != nil {
		return version{}, fmt.Errorf("%s: %w", key, err)
	}
	return version{h, data, etag}, nil
}

// get reads an object whole, if it can be one of a guard.
func (g Guard) get(ctx context.Context, key string) (body []byte, etag string, err error) {
	if ctx.Err() != nil {
		return nil, "", ended(ctx)
	}
	o, err := g.bucket.Get(ctx, key)
	if err == nil {
		defer o.Body.Close()
		if o.Size > headerMax+DataMax {
			return nil, "", fmt.Errorf("%s: %w: %d bytes", key, ErrForeignObject, o.Size)
		}
		body, err = io.ReadAll(io.LimitReader(o.Body, headerMax+DataMax+1))
		if err == nil && int64(len(body)) != o.Size {
			err = io.ErrUnexpectedEOF
		}
	}
	switch {
	case err == nil:
		return body, o.ETag, nil
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("%w: read %s: %w", ended(ctx), key, err)
	}
	return nil, "", fmt.Errorf("objguard: read %s: %w", key, err)
}

// list lists a page of keys. What is not in order would let a caller that asks for the
// next page ask for ever.
func (g Guard) list(ctx context.Context, prefix, after string) (keys []string, more bool, err error) {
	if ctx.Err() != nil {
		return nil, false, ended(ctx)
	}
	keys, more, err = g.bucket.List(ctx, prefix, after)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, false, fmt.Errorf("%w: list %s: %w", ended(ctx), prefix, err)
	case err != nil:
		return nil, false, fmt.Errorf("objguard: list %s: %w", prefix, err)
	}
	for _, key := range keys {
		if key <= after || !strings.HasPrefix(key, prefix) {
			return nil, false, fmt.Errorf("objguard: list %s: the store does not list in order: %q is not above %q", prefix, key, after)
		}
		after = key
	}
	return keys, more && len(keys) > 0, nil
}

// send puts an object and, while nobody knows whether that took effect, sends the same
// request again: same body, same condition. It returns what Put does. sure is false
// where a request before the last one may have taken effect: then a refusal says
// nothing about this write, see [Guard.swap].
func (g Guard) send(ctx context.Context, key string, body io.ReadSeeker, size int64, c Condition) (etag string, sure bool, err error) {
	pause := pauseMin
	sure = true
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			if sure {
				return "", sure, ended(ctx)
			}
			return "", sure, fmt.Errorf("%w: write %s: %w", guard.ErrUnknown, key, ended(ctx))
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			if !sure {
				return "", sure, fmt.Errorf("%w: write %s again: %w", guard.ErrUnknown, key, err)
			}
			return "", sure, fmt.Errorf("objguard: write %s: %w", key, err)
		}
		given := &lent{of: body}
		etag, err = g.bucket.Put(ctx, key, given, size, c)
		given.back()
		switch {
		case err == nil, refused(err):
			return etag, sure, err
		case !undecided(err) && sure:
			return "", sure, fmt.Errorf("objguard: write %s: %w", key, err)
		case !undecided(err) || try == putTries || ctx.Err() != nil:
			return "", false, fmt.Errorf("%w: write %s: %w", guard.ErrUnknown, key, err)
		}
		sure = false
		sleep(ctx, pause)
		pause = min(2*pause, pauseMax)
	}
}

// sleep waits for a pause, or until ctx ends.
func sleep(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause) //tidy:clock a pause between two tries decides nothing
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// swap replaces the version base of a pointer by h and data.
//
//   - nil: done; now is the new version.
//   - ErrPrecondition: another version replaced base. This one did not take effect and
//     never will; now is what is there instead.
//   - guard.ErrUnknown: it may have taken effect.
//   - every other error: nothing took effect.
//
// How a lost answer is resolved. Every version of a pointer names its number and its
// nonce, and is written under the condition that the one before it is there.
//
//  1. No version is there twice. A body holds a nonce, so only the repetition of one
//     and the same request can write it again. That request expects version n-1 to be
//     there, which therefore would have to be there twice, and so on down to version 1,
//     which expects no object: and a pointer is never deleted.
//  2. So each number has one version for ever, and a request that expects version n
//     takes effect only while n is there, and at most once.
//  3. The answer is lost. The same request is sent again. It succeeds: it is done, and
//     the first one, if it is still on its way, comes too late by 2.
//  4. It is refused: n is no longer there, and this write is or is not version n+1. The
//     pointer is read. It names the nonces of the versions up to ancestorsKept before
//     its own, so it tells which write n+1 was.
//  5. Only if more than ancestorsKept versions have followed meanwhile, or all answers
//     are lost, nobody can tell: unknown.
func (g Guard) swap(ctx context.Context, key string, base version, h header, data []byte) (now version, err error) {
	body, err := encode(h, data)
	if err != nil {
		return version{}, err
	}
	c := IfAbsent()
	if base.Version > 0 {
		c = IfETag(base.etag)
	}
	etag, sure, err := g.send(ctx, key, bytes.NewReader(body), int64(len(body)), c)
	if err == nil {
		return version{h, data, etag}, nil
	}
	if !refused(err) {
		return version{}, err
	}

	now, err = g.read(ctx, key)
	for try := 1; err != nil && !sure && try < putTries && ctx.Err() == nil && !errors.Is(err, ErrForeignObject); try++ {
		sleep(ctx, pauseMin)
		now, err = g.read(ctx, key)
	}
	nonce, known := now.ofVersion(h.Version)
	switch {
	case err != nil && sure:
		return version{}, fmt.Errorf("objguard: refused, and the pointer cannot be read: %w", err)
	case err != nil:
		return version{}, fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	case known && nonce == h.Nonce:
		return now, nil
	case known || sure && now.Version > base.Version:
		return now, ErrPrecondition
	case sure:
		// The store refused the version that it shows, or the pointer has gone back.
		return version{}, fmt.Errorf("%w: %s is at version %d after %d", ErrReset, key, now.Version, base.Version)
	case now.Version <= base.Version:
		return version{}, fmt.Errorf("%w: %w: %s is at version %d after %d", guard.ErrUnknown, ErrReset, key, now.Version, base.Version)
	}
	return version{}, fmt.Errorf("%w: %s has gone from version %d to %d meanwhile", guard.ErrUnknown, key, base.Version, now.Version)
}

// ErrReset: a pointer went back to an older version or is gone. Somebody deleted it,
// restored it or wrote it without this package, or the store does not keep its
// conditions ("pawl guard probe" tells). What the pointer had seen is forgotten.
var ErrReset = errors.New("objguard: a pointer has gone back")

// ended returns an error that is both the context's and its cause, such as the loss of
// the lease.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("objguard: %w", cause)
	}
	return fmt.Errorf("objguard: %w: %w", err, cause)
}
