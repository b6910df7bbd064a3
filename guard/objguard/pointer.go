package objguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/guard"
)

// Pointer is the guarded object of one resource: its mark, the user's bytes, and the
// names of the objects that were committed with it. It may be used by many goroutines,
// whose writes take turns. It remembers the last version that it has written or read
// for a write, so that the next write is one request.
type Pointer struct {
	guard    Guard
	resource string
	key      string

	turn turn
	last *version // nil: not known. Only with the turn.
}

var (
	_ guard.Claimer = (*Pointer)(nil)
	_ guard.Seer    = (*Pointer)(nil)
)

// Pointer returns the pointer of a resource. It sends nothing. Keep it as long as the
// lease lasts.
func (g Guard) Pointer(resource string) *Pointer {
	return g.pointer(resource, g.key(resource, pointerName))
}

func (g Guard) pointer(resource, key string) *Pointer {
	return &Pointer{guard: g, resource: resource, key: key, turn: newTurn()}
}

// Claim raises the mark to f, see [guard.Claimer]. When it returns nil the store
// refuses every write of a lower token that is still on its way: each of them expects a
// version that is there no longer. Bytes and committed objects stay as they are. It reads the pointer
// once, and writes it once if f is higher than its mark.
//
// Errors are those of [guard.Claimer], [ErrBusy], [ErrReset], [ErrForeignObject], the
// context's and the bucket's.
func (p *Pointer) Claim(ctx context.Context, f guard.Fence) error {
	return p.write(ctx, f, writing{claim: true})
}

// Update replaces the pointer's bytes by what fn makes of them, under f. old is empty
// where nothing was written yet; fn must not change it. fn may run several times, each
// time on the bytes that it would replace, and has no effects of its own: others of the
// same token may write at the same time. With the last version known it is one request.
//
//   - nil: done.
//   - guard.ErrStale, guard.ErrForeign, guard.ErrMissing, guard.ErrMalformed: refused.
//     Nothing took effect.
//   - guard.ErrUnknown: the answer was lost, and so were those of the repetitions. It
//     may have taken effect, or may do so until the next write of this pointer that is
//     done.
//   - [ErrBusy], [ErrReset], [ErrForeignObject], fn's own error as it returned it, the
//     context's and the bucket's: nothing took effect.
func (p *Pointer) Update(ctx context.Context, f guard.Fence, fn func(old []byte) ([]byte, error)) error {
	return p.write(ctx, f, writing{data: fn})
}

// Read reads the pointer's bytes, without any guard. They are empty where nothing was
// written yet. Read after the claim: before, an older holder may still write.
func (p *Pointer) Read(ctx context.Context) ([]byte, error) {
	v, err := p.guard.read(ctx, p.key)
	return v.data, err
}

// Seen returns the cell and the highest token of this pointer, see [guard.Seer]; the zero
// State when it has seen none. The resource is the pointer's own, any other
// guard.ErrMalformed.
func (p *Pointer) Seen(ctx context.Context, resource string) (guard.State, error) {
	if resource != p.resource {
		return guard.State{}, fmt.Errorf("%w: the mark of %q at %q", guard.ErrMalformed, resource, p.resource)
	}
	v, err := p.guard.read(ctx, p.key)
	return v.state(), err
}

// writing is what a write changes.
type writing struct {
	claim  bool // nothing, if the mark is f's already
	data   func(old []byte) ([]byte, error)
	header func(h *header) error
}

// write decides about f, as [guard.Decide] does under Monotonic, and replaces the
// version that it decided on.
func (p *Pointer) write(ctx context.Context, f guard.Fence, w writing) error {
	if err := shown(f, p.resource); err != nil {
		return err
	}
	if err := p.turn.take(ctx); err != nil {
		return err
	}
	defer p.turn.give()

	// A claim reads what is there: what this process remembers says nothing about what
	// another one was told meanwhile.
	fresh := false
	if w.claim || p.last == nil {
		if err := p.readAgain(ctx); err != nil {
			return err
		}
		fresh = true
	}
	for range casTries {
		base := *p.last
		_, v := guard.Decide(guard.Monotonic, base.state(), f.Mark())
		if err := v.Err(f.Resource, base.state(), f.Mark()); err != nil {
			if fresh {
				return err
			}
			// The refusal names the mark as it is.
			if err := p.readAgain(ctx); err != nil {
				return err
			}
			fresh = true
			continue
		}
		if w.claim && v == guard.Pass {
			return nil
		}
		h, data, err := w.apply(base, f)
		if err != nil {
			return err
		}
		now, err := p.guard.swap(ctx, p.key, base, h, data)
		switch {
		case err == nil:
			p.last = &now
			return nil
		case errors.Is(err, ErrPrecondition):
			p.last, fresh = &now, true
		default:
			p.last = nil
			return err
		}
	}
	return fmt.Errorf("%w: %d tries for %q", ErrBusy, casTries, p.resource)
}

func (p *Pointer) readAgain(ctx context.Context) error {
	v, err := p.guard.read(ctx, p.key)
	if err != nil {
		return err
	}
	p.last = &v
	return nil
}

// apply makes the version that follows base.
func (w writing) apply(base version, f guard.Fence) (header, []byte, error) {
	h, data := base.next(f), base.data
	if w.data != nil {
		made, err := w.data(bytes.Clone(base.data))
		if err != nil {
			return header{}, nil, err
		}
		// What is remembered is not the caller's to change.
		data = slices.Clone(made)
	}
	if w.header != nil {
		if err := w.header(&h); err != nil {
			return header{}, nil, err
		}
	}
	return h, data, nil
}
