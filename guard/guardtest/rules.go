package guardtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlproject/pawl/guard"
)

func equalPasses(ctx context.Context, r Resource) error {
	f := fence("equal", 7)
	return errors.Join(
		r.want(done, r.Append(ctx, f, "a"), "the first operation"),
		r.want(done, r.Append(ctx, f, "a"), "the same once more"),
		r.want(done, r.Claim(ctx, f), "a claim after operations"),
		r.want(done, r.Claim(ctx, f), "the same claim again"),
		r.want(done, r.Append(ctx, f, "b"), "an operation after the claim"),
		r.wantList(ctx, "equal", "a", "a", "b"),
		r.wantMark(ctx, "equal", 7),
	)
}

func lowerRefused(ctx context.Context, r Resource) error {
	old, young := fence("lower", 7), fence("lower", 8)
	return errors.Join(
		r.want(done, r.Append(ctx, old, "old"), "the first holder"),
		r.want(done, r.Append(ctx, young, "new"), "the second holder, without a claim"),
		r.wantStale(r.Append(ctx, old, "late"), old, 8, "append"),
		r.wantStale(r.Claim(ctx, old), old, 8, "claim"),
		r.want(done, r.Append(ctx, young, "new again"), "the second holder goes on"),
		r.wantList(ctx, "lower", "old", "new", "new again"),
		r.wantMark(ctx, "lower", 8),
	)
}

// claimCloses runs the race that a check on writes alone leaves open.
//
//  1. The old holder prepares a write and sleeps.
//  2. The new holder is granted, claims, and reads.
//  3. The old holder's write arrives, before the new one has written anything.
//  4. The new holder acts on what it read in step 2.
func claimCloses(ctx context.Context, r Resource) error {
	old, young := fence("claim", 7), fence("claim", 8)
	return errors.Join(
		r.want(done, r.Claim(ctx, old), "the first claim"),
		r.want(done, r.Append(ctx, old, "old"), "the first holder"),
		r.want(done, r.Claim(ctx, young), "the second claim"),
		r.wantMark(ctx, "claim", 8),
		r.wantStale(r.Append(ctx, old, "late"), old, 8, "append before the new holder's first write"),
		r.wantList(ctx, "claim", "old"),
		r.want(done, r.Append(ctx, young, "new"), "the second holder"),
		r.wantList(ctx, "claim", "old", "new"),
	)
}

func refusedLeavesNothing(ctx context.Context, r Resource) error {
	bad := func(resource string) []guard.Fence {
		zero, above, other, nameless := fence(resource, 0), fence(resource, guard.Max+1), fence(resource, 9), fence(resource, 9)
		other.Cell, nameless.Cell = another, ""
		return []guard.Fence{zero, above, nameless, other, fence(resource, 7)}
	}
	if err := r.want(done, r.Append(ctx, fence("kept", 8), "kept"), "the holder"); err != nil {
		return err
	}
	for _, f := range bad("kept") {
		for doing, err := range map[string]error{"append": r.Append(ctx, f, "trace"), "claim": r.Claim(ctx, f)} {
			if err == nil {
				return fmt.Errorf("%s with %v after token 8: not refused", doing, f)
			}
		}
		if err := errors.Join(r.wantList(ctx, "kept", "kept"), r.wantMark(ctx, "kept", 8)); err != nil {
			return fmt.Errorf("after %v was refused: %w", f, err)
		}
	}
	for _, f := range bad("fresh")[:3] {
		if r.Append(ctx, f, "trace") == nil || r.Claim(ctx, f) == nil {
			return fmt.Errorf("%v on a fresh resource: not refused", f)
		}
		if err := errors.Join(r.wantList(ctx, "fresh"), r.wantMark(ctx, "fresh", 0)); err != nil {
			return fmt.Errorf("after %v was refused: %w", f, err)
		}
	}
	return r.want(done, r.Append(ctx, fence("fresh", 1), "first"), "the lowest token after refusals")
}

// lostIsUnknown: nobody is told that an operation whose answer was lost was refused, or
// done where it was not.
func lostIsUnknown(ctx context.Context, r Resource) error {
	if r.LoseAnswer == nil {
		return errors.New("the resource offers no way to lose an answer, so nobody has seen what its guard makes of one")
	}
	for _, landed := range []bool{true, false} {
		name := fmt.Sprintf("landed %t", landed)
		before, f := fence(name, 7), fence(name, 8)
		if err := r.want(done, r.Append(ctx, before, "before"), "%s: the holder before", name); err != nil {
			return err
		}
		r.LoseAnswer(landed)
		took, err := r.lost(landed, r.Append(ctx, f, "lost"), name+": append")
		if err != nil {
			return err
		}
		texts := []string{"before"}
		if took {
			texts = append(texts, "lost")
			// What took effect has raised the mark; what did not may have.
			if err := r.wantMark(ctx, name, 8); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := r.wantList(ctx, name, texts...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		f = fence(name, 9)
		r.LoseAnswer(landed)
		took, err = r.lost(landed, r.Claim(ctx, f), name+": claim")
		if err == nil && took {
			err = r.wantMark(ctx, name, 9)
		}
		err = errors.Join(
			err,
			r.want(done, r.Claim(ctx, f), "%s: the claim again", name),
			r.want(done, r.Append(ctx, f, "after"), "%s: an operation afterwards", name),
			r.wantList(ctx, name, append(texts, "after")...),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// lost judges the answer to an operation whose answer was lost, and returns whether the
// operation must have taken effect.
func (r Resource) lost(landed bool, err error, doing string) (took bool, _ error) {
	if r.Resolves && r.outcome(err) == done {
		return true, nil
	}
	return landed, r.want(unknown, err, "%s", doing)
}

func tokensInBounds(ctx context.Context, r Resource) error {
	for _, c := range []struct {
		token guard.Token
		want  outcome
	}{
		{0, missing},
		{guard.Max + 1, malformed},
		{1 << 63, malformed},
		{1<<64 - 1, malformed},
		{1, done},
		{guard.Max, done},
		{0, missing},
		{guard.Max + 1, malformed},
		{1<<64 - 1, malformed},
	} {
		f := fence("bounds", c.token)
		err := errors.Join(
			r.want(c.want, r.Claim(ctx, f), "claim with token %d", uint64(c.token)),
			r.want(c.want, r.Append(ctx, f, "x"), "append with token %d", uint64(c.token)),
		)
		if err != nil {
			return err
		}
	}
	return r.wantMark(ctx, "bounds", guard.Max)
}

func foreignRefused(ctx context.Context, r Resource) error {
	if err := r.want(done, r.Claim(ctx, fence("cells", 8)), "the first cell"); err != nil {
		return err
	}
	for _, t := range []guard.Token{7, 8, 9, guard.Max} {
		f := fence("cells", t)
		f.Cell = another
		err := errors.Join(
			r.want(foreign, r.Append(ctx, f, "x"), "append with token %d of another cell", t),
			r.want(foreign, r.Claim(ctx, f), "claim with token %d of another cell", t),
			r.wantMark(ctx, "cells", 8),
		)
		if err != nil {
			return err
		}
	}
	return errors.Join(
		r.want(done, r.Append(ctx, fence("cells", 8), "own"), "the first cell goes on"),
		r.wantList(ctx, "cells", "own"),
	)
}

// tokensAreNumbers tries tokens at which other systems have rounded, cut or compared as
// text: a change in the number of digits, 2^31, 2^32, and the last numbers that differ
// in double precision.
func tokensAreNumbers(ctx context.Context, r Resource) error {
	tokens := []guard.Token{
		9, 10, 99, 100, 1<<24 - 1, 1 << 24, 1<<24 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1,
		1 << 52, 1<<53 - 3, 1<<53 - 2, guard.Max,
	}
	for i, t := range tokens {
		f := fence("numbers", t)
		err := errors.Join(
			r.want(done, r.Append(ctx, f, t.String()), "token %d", t),
			r.wantMark(ctx, "numbers", t),
		)
		if err != nil {
			return err
		}
		if i > 0 {
			old := fence("numbers", tokens[i-1])
			if err := r.wantStale(r.Append(ctx, old, "late"), old, t, "append"); err != nil {
				return err
			}
		}
	}
	return nil
}

func resourcesApart(ctx context.Context, r Resource) error {
	names := []string{
		"orders", "Orders", "orders ", " orders", "orders/7", "orders%", "order_", "'); --", `"`, "\\", "\n", "0", "00",
		"é", "e\u0301", "ß", "ss", "slots\u001f1", "slots\u001f10", "slots", "\U0001F512", strings.Repeat("n", 518),
	}
	for i, name := range names {
		// Each is given a lower token than all before it.
		f := fence(name, guard.Token(len(names)-i))
		err := errors.Join(
			r.wantMark(ctx, name, 0),
			r.want(done, r.Claim(ctx, f), "claim %q", name),
			r.want(done, r.Append(ctx, f, name), "append to %q", name),
		)
		if err != nil {
			return err
		}
	}
	for i, name := range names {
		if err := errors.Join(r.wantMark(ctx, name, guard.Token(len(names)-i)), r.wantList(ctx, name, name)); err != nil {
			return err
		}
	}
	return nil
}
