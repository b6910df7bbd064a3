package guardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// patience is how long a claim may wait for an open transaction before the test lets
// that transaction go on. Either order is correct, so the length only decides which of
// them is seen.
const patience = 200 * time.Millisecond

// openTransaction runs the race of a check that does not hold until the commit.
//
//  1. The old holder's transaction passes the guard, writes, and sleeps.
//  2. The new holder claims. Either the claim waits until the old transaction has ended,
//     or that transaction can no longer commit.
//  3. The old holder wakes and commits.
//  4. What the new holder reads after its claim does not change.
func openTransaction(ctx context.Context, r Resource) error {
	old, young := fence("open", 7), fence("open", 8)
	if err := r.want(done, r.Claim(ctx, old), "the first claim"); err != nil {
		return err
	}
	tx, err := r.Begin(ctx, old, "late")
	if err != nil {
		return fmt.Errorf("begin under the only token: %w", err)
	}
	defer tx.Rollback()

	short, cancel := context.WithTimeout(ctx, patience)
	err = r.Claim(short, young)
	cancel()
	if o := r.outcome(err); o == stale || o == foreign || o == missing || o == malformed {
		return fmt.Errorf("a claim held back by an open transaction is %s: %w", o, err)
	}
	claimedFirst := err == nil
	var committed error
	if !claimedFirst {
		committed = tx.Commit()
		if err := r.want(done, r.Claim(ctx, young), "the claim after the old transaction ended"); err != nil {
			return err
		}
	}
	read, err := r.Read(ctx, "open")
	if err != nil {
		return fmt.Errorf("read after the claim: %w", err)
	}
	if claimedFirst {
		if committed = tx.Commit(); committed == nil {
			return errors.New("a transaction of the old holder committed after the new holder's claim")
		}
	}
	if committed == nil != slices.Contains(read, "late") {
		return fmt.Errorf("the old transaction's commit said %v; the new holder, after its claim, read %q", committed, read)
	}
	return errors.Join(
		r.wantStale(r.Append(ctx, old, "later"), old, 8, "append"),
		r.refusedOpen(ctx, old),
		r.wantList(ctx, "open", read...),
		r.want(done, r.Append(ctx, young, "new"), "the new holder"),
	)
}

// refusedOpen begins a transaction under a fence that was overtaken before: it
// must not get through both Begin and Commit.
func (r Resource) refusedOpen(ctx context.Context, old guard.Fence) error {
	tx, err := r.Begin(ctx, old, "later still")
	if err != nil {
		return r.want(stale, err, "begin with an overtaken token")
	}
	if err := tx.Commit(); err == nil {
		return errors.New("a transaction that began after the new holder's claim has committed")
	}
	return nil
}

func sideBySide(ctx context.Context, r Resource) error {
	f := fence("parallel", 7)
	if err := r.want(done, r.Claim(ctx, f), "the claim"); err != nil {
		return err
	}
	first, err := r.Begin(ctx, f, "first")
	if err != nil {
		return fmt.Errorf("begin the first: %w", err)
	}
	defer first.Rollback()

	// A guard that makes them take turns holds the second back until the context
	// ends; an operation that passes is not slowed down by the length of the bound.
	bound, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	second, err := r.Begin(bound, f, "second")
	if err != nil {
		return fmt.Errorf("begin the second while the first is open: %w", err)
	}
	defer second.Rollback()
	if err := second.Commit(); err != nil {
		return fmt.Errorf("commit the second while the first is open: %w", err)
	}
	if err := first.Commit(); err != nil {
		return fmt.Errorf("commit the first: %w", err)
	}
	texts, err := r.Read(ctx, "parallel")
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if slices.Sort(texts); !slices.Equal(texts, []string{"first", "second"}) {
		return fmt.Errorf("after both committed the list is %q", texts)
	}
	old := fence("parallel", 6)
	return r.wantStale(r.Append(ctx, old, "late"), old, 7, "append")
}
