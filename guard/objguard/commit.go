package objguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pawlproject/pawl/guard"
)

// Bounds of a commit.
const (
	// NameMax is the length of a committed object's name, in bytes.
	NameMax = 1024
	// openTries is how often a reader reads the pointer anew because an object that it
	// named was swept meanwhile.
	openTries = 8
)

// ErrDangling: the pointer names an object that is not there. Somebody deleted it
// without this package, as by a lifecycle rule.
var ErrDangling = errors.New("objguard: a committed object is missing")

// Upload is what becomes an object. Body is read from its beginning, more than once if
// an answer is lost, and has Size bytes, at most [SizeMax].
type Upload struct {
	Body io.ReadSeeker
	Size int64
}

// Bytes is the upload of b.
func Bytes(b []byte) Upload { return Upload{bytes.NewReader(b), int64(len(b))} }

// Changes is what one commit does, all of it at once.
type Changes struct {
	// Put adds objects by name, or replaces them. A name is 1 to NameMax bytes.
	Put map[string]Upload
	// Remove takes names away; one that is not there is no error.
	Remove []string
	// Data makes new bytes of the pointer's, as for Update; nil: they stay.
	Data func(old []byte) ([]byte, error)
}

// Commit uploads objects and then, by one write of the pointer, makes all changes take
// effect at once: a reader has all of them or none. Its answers are those of
// [Pointer.Update]. After a refusal or an error the uploads lie there without a name and
// are deleted by a later [Pointer.Sweep].
//
// An object lies under a key that holds the token and fresh random bits, and is never
// written again. So in a commit's new manifest there are the keys of the version that
// it replaces and keys of its own token, and no others.
func (p *Pointer) Commit(ctx context.Context, f guard.Fence, c Changes) error {
	if err := shown(f, p.resource); err != nil {
		return err
	}
	for name, u := range c.Put {
		switch {
		case name == "" || len(name) > NameMax:
			return fmt.Errorf("objguard: a name of %d bytes, expected 1 to %d", len(name), NameMax)
		case u.Body == nil || u.Size < 0 || u.Size > SizeMax:
			return fmt.Errorf("objguard: object %q has %d bytes, expected 0 to %d", name, u.Size, int64(SizeMax))
		case slices.Contains(c.Remove, name):
			return fmt.Errorf("objguard: object %q is both put and removed", name)
		}
	}
	// An overtaken holder uploads nothing.
	seen, err := p.Seen(ctx, f.Resource)
	if err != nil {
		return err
	}
	if err := refusal(seen, f); err != nil {
		return err
	}
	folder := f.Token.Fixed() + "/" + newNonce() + "/"
	keys := make(map[string]string, len(c.Put))
	for _, name := range slices.Sorted(maps.Keys(c.Put)) {
		keys[name] = folder + keyName(name)
		if err := p.upload(ctx, p.objects()+keys[name], c.Put[name]); err != nil {
			return err
		}
	}
	return p.write(ctx, f, writing{data: c.Data, header: func(h *header) error {
		objects := maps.Clone(h.Objects)
		if objects == nil {
			objects = map[string]string{}
		}
		maps.Copy(objects, keys)
		for _, name := range c.Remove {
			delete(objects, name)
		}
		h.Objects = objects
		return nil
	}})
}

// objects is the prefix below which a pointer's objects lie.
func (p *Pointer) objects() string { return p.guard.key(p.resource, "objects/") }

// upload writes an object that nothing names yet. Its key is this commit's alone, so
// "exists already" means that a request of this very upload took effect. What is unknown
// here is a failure of the commit, not an unknown one: the manifest was not written.
func (p *Pointer) upload(ctx context.Context, key string, u Upload) error {
	_, _, err := p.guard.send(ctx, key, u.Body, u.Size, IfAbsent())
	switch {
	case err == nil, errors.Is(err, ErrPrecondition):
		return nil
	case errors.Is(err, guard.ErrUnknown):
		return fmt.Errorf("objguard: nothing was committed, an upload failed: %v", err)
	}
	return err
}

// Snapshot is one version of a pointer, as it was read.
type Snapshot struct {
	guard    Guard
	resource string
	version  version
}

// Snapshot reads the pointer, without any guard.
func (p *Pointer) Snapshot(ctx context.Context) (Snapshot, error) {
	v, err := p.guard.read(ctx, p.key)
	return Snapshot{p.guard, p.resource, v}, err
}

// Data returns the pointer's bytes. The caller does not change them.
func (s Snapshot) Data() []byte { return s.version.data }

// State returns the cell and the token of the version, zero where nothing was written yet.
func (s Snapshot) State() guard.State { return s.version.state() }

// Version counts the versions of the pointer, from 1; 0: it does not exist.
func (s Snapshot) Version() uint64 { return s.version.Version }

// Names returns the names of the committed objects, sorted.
func (s Snapshot) Names() []string { return slices.Sorted(maps.Keys(s.version.Objects)) }

// Open opens an object of this version. [ErrNotFound]: the version names none, or names
// it and the object was swept, since a later version does not name it: take a new
// Snapshot.
func (s Snapshot) Open(ctx context.Context, name string) (Object, error) {
	key, ok := s.version.Objects[name]
	if !ok {
		return Object{}, fmt.Errorf("%w: no object %q was committed", ErrNotFound, name)
	}
	o, err := s.guard.bucket.Get(ctx, s.guard.key(s.resource, "objects/")+key)
	if err != nil {
		return Object{}, fmt.Errorf("objguard: open %q: %w", name, err)
	}
	return o, nil
}

// Open opens a committed object by name, as the newest version of the pointer names it.
// The caller closes its Body. [ErrNotFound]: none is committed.
//
// A reader that read the pointer may find the object gone: a newer version replaced it,
// and a sweep deleted it. The pointer is then read anew. [ErrDangling]: the newest
// version names what is not there.
func (p *Pointer) Open(ctx context.Context, name string) (Object, error) {
	missing := ""
	for range openTries {
		s, err := p.Snapshot(ctx)
		if err != nil {
			return Object{}, err
		}
		key, ok := s.version.Objects[name]
		if ok && key == missing {
			return Object{}, fmt.Errorf("%w: %q, key %s", ErrDangling, name, p.objects()+key)
		}
		o, err := s.Open(ctx, name)
		if !ok || !errors.Is(err, ErrNotFound) {
			return o, err
		}
		missing = key
	}
	return Object{}, fmt.Errorf("%w: %q was replaced and swept %d times meanwhile", ErrBusy, name, openTries)
}

// SweepMax is how many objects one Sweep deletes at most.
const SweepMax = 10_000

// Sweep claims under f and deletes uploads that no commit will ever name, up to
// [SweepMax]; it returns how many. An error may be repeated freely. guard.ErrStale and
// the other refusals of a claim: nothing was deleted.
//
// Which those are. Let the pointer, as it was read, have token T, and let k be a key of
// token s < T that it does not name.
//
//  1. A commit that adds k has token s. It replaces a version whose token is at most s,
//     and after the version that was read there is none: tokens never fall.
//  2. A commit of any other token keeps keys of the version that it replaces or adds
//     keys of its own. So no later version names k.
//  3. Both hold for ever. It does not matter when the listing was made, how late the
//     delete arrives, and whether the sweeper itself was overtaken meanwhile. No condition
//     on the delete is needed.
//  4. A late upload may make k again. It is garbage as before, and the next sweep's.
//
// Keys of token T itself are not touched, of whichever process: a commit of T may be about
// to name them. They are deleted under the next lease.
func (p *Pointer) Sweep(ctx context.Context, f guard.Fence) (n int, err error) {
	if err := p.Claim(ctx, f); err != nil {
		return 0, err
	}
	s, err := p.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	named := map[string]bool{}
	for _, key := range s.version.Objects {
		named[key] = true
	}
	prefix, after := p.objects(), ""
	for n < SweepMax {
		keys, more, err := p.guard.list(ctx, prefix, after)
		if err != nil {
			return n, err
		}
		for _, key := range keys {
			after = key
			rest := strings.TrimPrefix(key, prefix)
			text, _, _ := strings.Cut(rest, "/")
			t, err := guard.ParseToken(text)
			if err != nil || len(text) != len(guard.Max.Fixed()) {
				continue // not of this package
			}
			if t >= s.version.Token {
				// Keys are in the order of their tokens.
				return n, nil
			}
			if named[rest] || n == SweepMax {
				continue
			}
			if err := p.guard.bucket.Delete(ctx, key); err != nil {
				return n, fmt.Errorf("objguard: delete %s: %w", key, err)
			}
			n++
		}
		if !more {
			break
		}
	}
	return n, nil
}
