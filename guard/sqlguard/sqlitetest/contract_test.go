package sqlitetest

import (
	"context"
	"errors"
	"testing"

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
		Claim:      d.guard.Claim,
		Append:     d.append,
		Read:       d.read,
		Seen:       d.guard.Seen,
		LoseAnswer: d.wire.loseAnswer,
		Busy:       func(err error) bool { return errors.Is(err, sqlguard.ErrBusy) },
		Begin: func(ctx context.Context, f guard.Fence, text string) (guardtest.Open, error) {
			tx, err := d.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
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
