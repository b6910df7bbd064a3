package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

func TestContract(t *testing.T) {
	for _, journal := range []string{wal, rollback} {
		for _, timeout := range []string{atOnce, wait} {
			t.Run(journal+" busy_timeout "+timeout, func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T) guardtest.Resource {
					return resource(fresh(t, journal, timeout))
				})
			})
		}
	}
}

// resource leaves SideBySide false: SQLite has one writer at a time.
func resource(d *database) guardtest.Resource {
	return guardtest.Resource{
		Claim:    d.guard.Claim,
		Append:   d.append,
		Read:     d.read,
		Seen:     d.guard.Seen,
		Step:     d.step,
		OffsetOf: d.guard.OffsetOf,
		InTx: func(ctx context.Context, f guard.Fence, fn func(guardtest.Within) error) error {
			return d.guard.InTx(ctx, f, func(tx *sql.Tx) error {
				return fn(guardtest.Within{
					Append: func(text string) error { return add(ctx, tx, f.Resource, text) },
					Commit: tx.Commit,
				})
			})
		},
		LoseAnswer: d.wire.loseAnswer,
		Busy:       func(err error) bool { return errors.Is(err, sqlguard.ErrBusy) },
		Begin: func(ctx context.Context, f guard.Fence, text string) (guardtest.Open, error) {
			tx, err := d.BeginTx(ctx, nil)
			if err != nil {
				return nil, busy(err)
			}
			if err := d.guard.Enter(ctx, tx, f); err != nil {
				return nil, err
			}
			if err := add(ctx, tx, f.Resource, text); err != nil {
				return nil, errors.Join(err, tx.Rollback())
			}
			return tx, nil
		},
	}
}

// busy is the one case in which a transaction is refused before it enters: a new
// connection queries the journal mode, and gets busy while another one commits.
func busy(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == 5 {
		return fmt.Errorf("%w: %w", sqlguard.ErrBusy, err)
	}
	return err
}
