package guardtest

import (
	"context"
	"errors"
	"fmt"
)

// writes is a function that appends text.
func writes(text string) func(Within) error {
	return func(w Within) error { return w.Append(text) }
}

func functionUnderFence(ctx context.Context, r Resource) error {
	old, young := fence("function", 7), fence("function", 8)
	if err := errors.Join(
		r.want(done, r.InTx(ctx, old, writes("old")), "the first holder's function"),
		r.want(done, r.InTx(ctx, young, writes("new")), "the second holder's function, without a claim"),
	); err != nil {
		return err
	}
	ran := false
	err := r.InTx(ctx, old, func(w Within) error {
		ran = true
		return w.Append("late")
	})
	if ran {
		return errors.New("a function ran under an overtaken token")
	}
	return errors.Join(
		r.wantStale(err, old, 8, "a function"),
		r.wantList(ctx, "function", "old", "new"),
		r.wantMark(ctx, "function", 8),
	)
}

// functionFails: what a function returns is handed on and is none of the guard's
// outcomes, what it panics with goes on, and neither leaves a trace, not even the
// mark.
func functionFails(ctx context.Context, r Resource) error {
	f, mine := fence("fails", 7), errors.New("the function's own")
	err := r.InTx(ctx, f, func(w Within) error { return errors.Join(w.Append("failed"), mine) })
	if o := r.outcome(err); o != strange || !errors.Is(err, mine) {
		return fmt.Errorf("the function failed with %q; the answer is %s: %w", mine, o, orNone(err))
	}
	if got := panicOf(func() {
		_ = r.InTx(ctx, f, func(w Within) error { panic(errors.Join(w.Append("panicked"), mine)) })
	}); got == nil {
		return errors.New("a function's panic was swallowed")
	} else if err, ok := got.(error); !ok || !errors.Is(err, mine) {
		return fmt.Errorf("a function's panic became %v", got)
	}
	return errors.Join(
		r.wantList(ctx, "fails"),
		r.wantMark(ctx, "fails", 0),
		r.want(done, r.InTx(ctx, fence("fails", 1), writes("first")), "the lowest token after failures"),
		r.wantList(ctx, "fails", "first"),
	)
}

// panicOf is what f panics with; nil: it does not.
func panicOf(f func()) (with any) {
	defer func() { with = recover() }()
	f()
	return nil
}

// contextEnds: the lease is lost while the function works. The answer says so, and
// nothing took effect.
func contextEnds(ctx context.Context, r Resource) error {
	lost := errors.New("the lease is lost")
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	err := r.InTx(held, fence("lost", 7), func(w Within) error {
		defer lose(lost)
		return w.Append("late")
	})
	if o := r.outcome(err); o != strange || !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
		return fmt.Errorf("the lease was lost before the commit; the answer is %s: %w", o, orNone(err))
	}
	return errors.Join(r.wantList(ctx, "lost"), r.wantMark(ctx, "lost", 0))
}

// functionCommits: what follows the function's own commit was not guarded, so nobody
// can say what took effect.
func functionCommits(ctx context.Context, r Resource) error {
	err := r.InTx(ctx, fence("own", 7), func(w Within) error { return w.Commit() })
	return r.want(unknown, err, "a function that commits its transaction")
}
