package guardtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/pawlproject/pawl/guard"
)

// key is whose numbers the rules move.
const key = "p"

// wantTurn returns an error unless err is a *guard.StaleError with the verdict v.
func wantTurn(v guard.Verdict, err error, doing string) error {
	e, ok := errors.AsType[*guard.StaleError](err)
	if !ok || e.Verdict != v {
		return fmt.Errorf("%s: got %w, want %v", doing, orNone(err), v)
	}
	return nil
}

// orNone makes no error one that can be shown.
func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func (r Resource) wantOffset(ctx context.Context, resource, of string, at uint64) error {
	got, err := r.OffsetOf(ctx, resource, of)
	if err != nil || got != at {
		return fmt.Errorf("the offset %q of %q is %d (%w), want %d", of, resource, got, orNone(err), at)
	}
	return nil
}

func offsetsInTurn(ctx context.Context, r Resource) error {
	old, young := fence("turn", 7), fence("turn", 8)
	for _, s := range []struct {
		f          guard.Fence
		prev, next uint64
		text       string
		want       guard.Verdict
	}{
		{old, 5, 6, "before the first", guard.Gap},
		{old, 0, 3, "a", guard.Pass},
		{old, 0, 3, "again", guard.Duplicate},
		{old, 0, 4, "further", guard.Duplicate},
		{old, 4, 5, "ahead", guard.Gap},
		{old, 3, 4, "b", guard.Pass},
		{young, 3, 4, "of the holder before", guard.Duplicate},
		{young, 4, 1<<32 + 1, "c", guard.Pass},
		{young, 1, 2, "cut to 32 bits", guard.Duplicate},
		{old, 1<<32 + 1, 1<<32 + 2, "late", guard.Stale},
		{young, 1<<32 + 1, math.MaxInt64, "d", guard.Pass},
	} {
		err := r.Step(ctx, s.f, key, s.prev, s.next, s.text)
		doing := fmt.Sprintf("%s, %d to %d with token %d", s.text, s.prev, s.next, s.f.Token)
		if s.want == guard.Pass {
			err = r.want(done, err, "%s", doing)
		} else {
			err = wantTurn(s.want, err, doing)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(
		r.wantList(ctx, "turn", "a", "b", "c", "d"),
		r.wantOffset(ctx, "turn", key, math.MaxInt64),
		r.wantMark(ctx, "turn", 8),
	)
}

// offsetsUnderFence: a step is as guarded as an append, whether its number is
// right or not.
func offsetsUnderFence(ctx context.Context, r Resource) error {
	old, young := fence("step", 7), fence("step", 8)
	foreigner := fence("step", 9)
	foreigner.Cell = another
	return errors.Join(
		r.want(done, r.Step(ctx, old, key, 0, 1, "a"), "a step that raises the mark"),
		r.wantMark(ctx, "step", 7),
		r.want(done, r.Claim(ctx, young), "the next claim"),
		r.wantStale(r.Step(ctx, old, key, 1, 2, "late"), old, 8, "the next step"),
		r.wantStale(r.Step(ctx, old, key, 0, 1, "late"), old, 8, "a repeated step"),
		r.want(foreign, r.Step(ctx, foreigner, key, 1, 2, "foreign"), "a step of another cell"),
		r.want(missing, r.Step(ctx, fence("step", 0), key, 1, 2, "bare"), "a step without a token"),
		r.want(malformed, r.Step(ctx, fence("step", guard.Max+1), key, 1, 2, "beyond"), "a step with a token above 2^53-1"),
		r.wantList(ctx, "step", "a"),
		r.wantOffset(ctx, "step", key, 1),
		r.wantMark(ctx, "step", 8),
	)
}

func offsetsInBounds(ctx context.Context, r Resource) error {
	f := fence("bounds", 7)
	for _, s := range [][2]uint64{{0, 0}, {3, 3}, {4, 3}, {0, 1 << 63}, {1 << 63, 1<<63 + 1}, {math.MaxUint64, 0}} {
		if err := r.want(malformed, r.Step(ctx, f, key, s[0], s[1], "x"), "from %d to %d", s[0], s[1]); err != nil {
			return err
		}
	}
	return errors.Join(
		r.want(missing, r.Step(ctx, f, "", 0, 1, "x"), "a step of no key"),
		r.wantList(ctx, "bounds"),
		r.wantOffset(ctx, "bounds", key, 0),
		r.wantMark(ctx, "bounds", 0),
	)
}

func offsetsApart(ctx context.Context, r Resource) error {
	for _, name := range []string{"these", "those"} {
		for _, of := range []string{"p", "P", "p ", "0", "é"} {
			err := errors.Join(
				r.wantOffset(ctx, name, of, 0),
				r.want(done, r.Step(ctx, fence(name, 7), of, 0, 4, of), "the first step of %q of %q", of, name),
				r.wantOffset(ctx, name, of, 4),
			)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// offsetsOnce: an answer is lost, the holder repeats the step, and the step takes
// effect once. It is tried at the first step of a key and at a later one, for which
// guards differ.
func offsetsOnce(ctx context.Context, r Resource) error {
	if r.LoseAnswer == nil {
		return errors.New("the resource offers no way to lose an answer, which is what offsets are for")
	}
	for _, landed := range []bool{true, false} {
		name := fmt.Sprintf("once %t", landed)
		f := fence(name, 7)
		var texts []string
		for n := range uint64(2) {
			text := fmt.Sprint(n)
			r.LoseAnswer(landed)
			if err := r.want(unknown, r.Step(ctx, f, key, n, n+1, text), "%s: step %d", name, n); err != nil {
				return err
			}
			again := r.Step(ctx, f, key, n, n+1, text)
			if landed {
				again = errors.Join(r.want(outOfTurn, again, "%s: step %d again", name, n), wantTurn(guard.Duplicate, again, name))
			}
			texts = append(texts, text)
			if err := errors.Join(again, r.wantList(ctx, name, texts...), r.wantOffset(ctx, name, key, n+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// offsetsAtOnce lets callers of one holder do the same steps, as those do that
// took a lost answer for a refusal.
func offsetsAtOnce(ctx context.Context, r Resource) error {
	const callers, stepsEach = 4, 5
	f := fence("at once", 7)
	if err := r.want(done, r.Claim(ctx, f), "the claim"); err != nil {
		return err
	}
	told := make([]error, callers)
	var wg sync.WaitGroup
	for caller := range told {
		wg.Go(func() {
			for n := range uint64(stepsEach) {
				for {
					err := r.Step(ctx, f, key, n, n+1, fmt.Sprint(n))
					switch r.outcome(err) {
					case busy:
						continue
					case done, outOfTurn:
					default:
						told[caller] = errors.Join(told[caller], fmt.Errorf("step %d: %w", n, err))
					}
					break
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(
		errors.Join(told...),
		r.wantList(ctx, "at once", "0", "1", "2", "3", "4"),
		r.wantOffset(ctx, "at once", key, stepsEach),
	)
}
