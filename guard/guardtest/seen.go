package guardtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlproject/pawl/guard"
)

// markSeen: nothing at first, the cell whose token opened the resource, whichever it
// is, and a mark that refused fences do not move.
func markSeen(ctx context.Context, r Resource) error {
	opened := guard.Fence{Resource: "opened", Token: 7, Cell: another}
	nothing, err := r.Seen(ctx, opened.Resource)
	if err != nil || nothing != (guard.State{}) {
		return fmt.Errorf("a resource that has seen nothing: %+v (%w), want the zero state", nothing, orNone(err))
	}
	if err := r.want(done, r.Claim(ctx, opened), "the first claim, by another cell"); err != nil {
		return err
	}
	lower := opened
	lower.Token = 6
	if err := errors.Join(
		r.want(foreign, r.Claim(ctx, fence(opened.Resource, 8)), "a claim by the cell that the other rules are of"),
		r.wantStale(r.Claim(ctx, lower), lower, 7, "claim"),
	); err != nil {
		return err
	}
	s, err := r.Seen(ctx, opened.Resource)
	if err != nil || s.Cell != another || s.Seen != 7 {
		return fmt.Errorf("the mark is %d of cell %q (%w), want 7 of cell %q", s.Seen, s.Cell, orNone(err), another)
	}
	return nil
}

// markSeenAtOnce: what a rider relies on. The mark rises by claims and by operations.
func markSeenAtOnce(ctx context.Context, r Resource) error {
	for t := guard.Token(7); t < 40; t += 3 {
		err := errors.Join(
			r.want(done, r.Claim(ctx, fence("rising", t)), "claim with token %d", t),
			r.wantMark(ctx, "rising", t),
			r.want(done, r.Append(ctx, fence("rising", t+1), "x"), "append with token %d", t+1),
			r.wantMark(ctx, "rising", t+1),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// seenEnds: the mark is there to be read, but not under a context that has ended.
func seenEnds(ctx context.Context, r Resource) error {
	if err := r.want(done, r.Claim(ctx, fence("ended", 7)), "the claim"); err != nil {
		return err
	}
	over, end := context.WithCancel(ctx)
	end()
	for _, resource := range []string{"ended", "never seen"} {
		if s, err := r.Seen(over, resource); !errors.Is(err, context.Canceled) || s != (guard.State{}) {
			return fmt.Errorf("the mark of %q under a context that has ended: %d of cell %q (%w), want the context's error", resource, s.Seen, s.Cell, orNone(err))
		}
	}
	return r.wantMark(ctx, "ended", 7)
}
