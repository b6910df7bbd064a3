package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pawlproject/pawl/guard"
)

// step appends text and moves an offset, as a consumer of a log does.
func (d *database) step(ctx context.Context, f guard.Fence, key string, prev, next uint64, text string) error {
	return d.guard.InTx(ctx, f, func(tx *sql.Tx) error {
		if err := d.guard.Offset(ctx, tx, f, key, prev, next); err != nil {
			return err
		}
		return add(ctx, tx, f.Resource, text)
	})
}

// A transaction that begins with an offset is as guarded as one that enters, and a
// refusal ends it.
func TestOffsetEnters(t *testing.T) {
	d := fresh(t, wal, wait)
	if err := d.step(t.Context(), fence("x", 8), "p", 0, 1, "a"); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[error]struct {
		f          guard.Fence
		prev, next uint64
	}{
		guard.ErrStale:     {fence("x", 7), 1, 2},
		guard.ErrOutOfTurn: {fence("x", 8), 0, 1},
	} {
		tx, err := d.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantOnly(t, d.guard.Offset(t.Context(), tx, s.f, "p", s.prev, s.next), want)
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("commit after a refused offset: %v", err)
		}
	}
}
