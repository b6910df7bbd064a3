package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/pawlproject/pawl/guard"
)

// Offset makes tx a transaction under f, as [Guard.Enter] does, and moves the offset
// key of f.Resource from prev to next, which commits with the rest of tx. So numbered
// work, such as the records of a log, takes effect exactly once, however often it is
// repeated. A key that was never moved has offset 0. Offsets go up to 2^63-1. key is
// what the numbers belong to, for instance a partition, and not empty.
//
// If prev is not the present offset, the error is guard.ErrOutOfTurn: a
// *guard.StaleError with Duplicate (done before; go on from [Guard.OffsetOf]) or Gap.
// As after every error of Enter, tx has then been rolled back.
func (g Guard) Offset(ctx context.Context, tx *sql.Tx, f guard.Fence, key string, prev, next uint64) error {
	err := g.moveOffset(ctx, tx, f, key, prev, next)
	if err != nil {
		return errors.Join(err, rollback(tx))
	}
	return nil
}

func (g Guard) moveOffset(ctx context.Context, tx *sql.Tx, f guard.Fence, key string, prev, next uint64) error {
	if key == "" {
		return fmt.Errorf("%w: no offset key", guard.ErrMissing)
	}
	if prev >= next || next > math.MaxInt64 {
		return fmt.Errorf("%w: offset from %d to %d", guard.ErrMalformed, prev, next)
	}
	if err := g.enter(ctx, tx, f); err != nil {
		return err
	}
	var seq int64
	err := tx.QueryRowContext(ctx, g.dialect.step, int64(next), f.Resource, key, int64(prev)).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) && prev == 0 {
		err = tx.QueryRowContext(ctx, g.dialect.start, f.Resource, key, int64(next)).Scan(&seq)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return g.failed(ctx, "move the offset", err)
	}

	at, err := g.offsetOf(ctx, tx, f.Resource, key)
	if err != nil {
		return err
	}
	m := f.Mark()
	m.Prev, m.Seq = prev, next
	s := guard.State{Cell: f.Cell, Seen: f.Token, Seq: at}
	if _, v := guard.Decide(guard.Exact, s, m); v.Err(f.Resource, s, m) != nil {
		return v.Err(f.Resource, s, m)
	}
	return fmt.Errorf("sqlguard: the database ignored offset %d of %q", next, key)
}

// OffsetOf returns the offset of a resource's key; 0 when it was never moved. Read it
// after the claim: before, an older holder may still move it.
func (g Guard) OffsetOf(ctx context.Context, resource, key string) (uint64, error) {
	return g.offsetOf(ctx, g.db, resource, key)
}

func (g Guard) offsetOf(ctx context.Context, q querier, resource, key string) (uint64, error) {
	var seq int64
	err := q.QueryRowContext(ctx, g.dialect.offset, resource, key).Scan(&seq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, g.failed(ctx, "read the offset", err)
	}
	return uint64(seq), nil
}
