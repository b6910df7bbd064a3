//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// way is one in which the driver speaks to the server.
type way struct {
	name  string
	level pgx.TxIsoLevel
	mode  pgx.QueryExecMode
}

// The isolation levels, and the other ways of sending statements.
var (
	levels = []way{
		{"read committed", pgx.ReadCommitted, pgx.QueryExecModeCacheStatement},
		{"repeatable read", pgx.RepeatableRead, pgx.QueryExecModeCacheStatement},
		{"serializable", pgx.Serializable, pgx.QueryExecModeCacheStatement},
	}
	modes = []way{
		{"exec", pgx.ReadCommitted, pgx.QueryExecModeExec},
		{"simple protocol", pgx.ReadCommitted, pgx.QueryExecModeSimpleProtocol},
	}
)

// TestContract runs the contract under each isolation level and in each way in
// which the driver speaks.
func TestContract(t *testing.T) {
	contract(t, levels)
	contract(t, modes)
}

func contract(t *testing.T, ways []way) {
	for _, c := range ways {
		t.Run(c.name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Resource {
				d := open(t, fresh(t).dsn, func(config *pgxpool.Config) {
					config.ConnConfig.DefaultQueryExecMode = c.mode
				})
				d.guard = d.guard.Isolation(c.level)
				return resource(d, c.level)
			})
		})
	}
}

// openTx is a transaction as the contract wants it.
type openTx struct {
	pgx.Tx
	ctx context.Context
}

func (o openTx) Commit() error   { return o.Tx.Commit(o.ctx) }
func (o openTx) Rollback() error { return o.Tx.Rollback(o.ctx) }

func resource(d *database, level pgx.TxIsoLevel) guardtest.Resource {
	return guardtest.Resource{
		Claim:    d.guard.Claim,
		Append:   d.append,
		Read:     d.read,
		Seen:     d.guard.Seen,
		Step:     d.step,
		OffsetOf: d.guard.OffsetOf,
		InTx: func(ctx context.Context, f guard.Fence, fn func(guardtest.Within) error) error {
			return d.guard.InTx(ctx, f, func(tx pgx.Tx) error {
				return fn(guardtest.Within{
					Append: func(text string) error { return add(ctx, tx, f.Resource, text) },
					Commit: func() error { return tx.Commit(ctx) },
				})
			})
		},
		LoseAnswer: d.wire.loseAnswer,
		SideBySide: true,
		Busy:       func(err error) bool { return errors.Is(err, pgguard.ErrBusy) },
		Begin: func(ctx context.Context, f guard.Fence, text string) (guardtest.Open, error) {
			tx, err := d.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				return nil, err
			}
			if err := d.guard.Enter(ctx, tx, f); err != nil {
				return nil, err
			}
			if err := add(ctx, tx, f.Resource, text); err != nil {
				return nil, errors.Join(err, tx.Rollback(ctx))
			}
			return openTx{tx, context.WithoutCancel(ctx)}, nil
		},
	}
}
