//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
)

// step appends text and moves an offset, as a consumer of a log does.
func (d *database) step(ctx context.Context, f guard.Fence, key string, prev, next uint64, text string) error {
	return d.guard.InTx(ctx, f, func(tx pgx.Tx) error {
		if err := d.guard.Offset(ctx, tx, f, key, prev, next); err != nil {
			return err
		}
		return add(ctx, tx, f.Resource, text)
	})
}

// A transaction that begins with an offset is as guarded as one that enters, and a
// refusal ends it.
func TestOffsetEnters(t *testing.T) {
	d := fresh(t)
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
		tx, err := d.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantOnly(t, d.guard.Offset(t.Context(), tx, s.f, "p", s.prev, s.next), want)
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("commit after a refused offset: %v", err)
		}
	}
}

// Two that move from the same place, at the first move and later: one does, the other is
// told where it stands.
func TestConcurrentOffsetMoves(t *testing.T) {
	d, first, second := naive(t)
	const move = `select pawl.move_offset('x', '` + cell + `', 5, 'p', `
	for _, step := range []string{move + `0, 1)`, move + `1, 2)`} {
		first.must(begin, step)
		second.must(begin)
		end := second.blocked(step)
		first.must(commit)
		wantEnd(t, end, "FE008")
		second.must(`rollback`)
	}
	if at, err := d.guard.OffsetOf(t.Context(), "x", "p"); err != nil || at != 2 {
		t.Errorf("the offset is %d, %v", at, err)
	}
}
