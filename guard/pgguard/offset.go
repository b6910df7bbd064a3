package pgguard

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
)

// Offset makes tx a transaction under f, as [Guard.Enter] does, and moves the offset
// key of f.Resource from prev to next, which commits with the rest of tx. So numbered
// work, such as the records of a log, takes effect exactly once, however often it is
// repeated. A key that was never moved has offset 0. Offsets go up to 2^63-1. key is
// what the numbers belong to, for instance a partition: not empty, valid UTF-8 without
// NUL.
//
// If prev is not the present offset, the error is guard.ErrOutOfTurn: a
// *guard.StaleError with Duplicate (done before; go on from [Guard.OffsetOf]) or Gap.
// As after every error of Enter, tx has then been rolled back.
func (g Guard) Offset(ctx context.Context, tx pgx.Tx, f guard.Fence, key string, prev, next uint64) error {
	if err := g.moveOffset(ctx, tx, f, key, prev, next); err != nil {
		return errors.Join(err, rollback(ctx, tx))
	}
	return nil
}

func (g Guard) moveOffset(ctx context.Context, tx pgx.Tx, f guard.Fence, key string, prev, next uint64) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("%w: no offset key", guard.ErrMissing)
	}
	if prev >= next || next > math.MaxInt64 {
		return fmt.Errorf("%w: offset from %d to %d", guard.ErrMalformed, prev, next)
	}
	_, err := tx.Exec(ctx, fmt.Sprintf("select pawl.move_offset(%s, %s, %d, %d, %s)",
		arguments(f), literal(key), prev, next, g.waitMS()))
	if err != nil {
		m := f.Mark()
		m.Prev, m.Seq = prev, next
		return g.refused(ctx, "move the offset", f, m, err)
	}
	return nil
}

// OffsetOf returns the offset of a resource's key; 0 when it was never moved. Read it
// after the claim: before, an older holder may still move it.
func (g Guard) OffsetOf(ctx context.Context, resource, key string) (uint64, error) {
	var seq int64
	err := g.pool.QueryRow(ctx, "select seq from pawl.guard_offset where resource = "+literal(resource)+
		" and key = "+literal(key)).Scan(&seq)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, failed(ctx, "read the offset", err)
	}
	return uint64(seq), nil
}
