package pgguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
)

const (
	// rollbackMax bounds a rollback, which no context ends; afterwards the
	// connection is closed, which rolls back as well.
	rollbackMax = 5 * time.Second
	// snapshotsMax is how often a transaction is begun anew, under REPEATABLE READ
	// or SERIALIZABLE with another snapshot, before it counts as busy.
	snapshotsMax = 4
)

// Enter makes tx a transaction under f: it checks f against the mark and raises
// the mark to it, both as part of tx. Let it be the first statement of tx, and
// outside of every savepoint. Entering twice, and entering several resources, is
// allowed; of several, always in the same order, or two transactions may lock
// each other out ([ErrBusy]).
//
// When Enter returns an error it has rolled tx back, so that nothing can land by
// going on all the same: guard.ErrStale, guard.ErrForeign, guard.ErrMissing,
// guard.ErrMalformed, [ErrBusy], [ErrUnclaimed], [ErrNotInstalled],
// [ErrForbidden], or the driver's error.
//
// The caller's own tx.Commit may return an error although it took effect; take
// that for guard.ErrUnknown, as [Guard.InTx] does.
func (g Guard) Enter(ctx context.Context, tx pgx.Tx, f guard.Fence) error {
	if err := f.Validate(); err != nil {
		return errors.Join(err, rollback(ctx, tx))
	}
	if _, err := tx.Exec(ctx, g.call(byEnter, f)); err != nil {
		return errors.Join(g.refused(ctx, "enter", f, f.Mark(), err), rollback(ctx, tx))
	}
	return nil
}

// entry is the function that a transaction enters by.
type entry string

const (
	byEnter   entry = "enter"
	byClaim   entry = "claim"
	byReenter entry = "reenter" // the mark is likely to be what is shown
)

// call is the statement that enters. It has no parameters, so that the driver
// sends it as it is, in one message, whatever stands before it.
func (g Guard) call(by entry, f guard.Fence) string {
	return "select pawl." + string(by) + "(" + arguments(f) + ", " + g.waitMS() + ")"
}

// InTx runs fn in a transaction under f and commits it. fn does its reading and
// writing on the tx it is given and neither commits nor rolls it back; it runs
// once at most.
//
//   - nil: the transaction is committed.
//   - guard.ErrUnknown: the commit was sent and its answer lost. It may have
//     taken effect. So it is where the commit's wait for a synchronous standby was
//     cancelled, if the pool's connections tell of that ([ReportCancelledWaits]).
//   - Everything else: nothing took effect. The errors are those of
//     [Guard.Enter], fn's own as it returned it, the database's at the commit
//     (also [ErrBusy]), and the context's.
//
// When ctx ends the transaction is rolled back; a commit that has begun goes on
// for up to 10 seconds. A panic of fn rolls back and goes on. Beginning and
// entering are one round trip, the commit another.
func (g Guard) InTx(ctx context.Context, f guard.Fence, fn func(pgx.Tx) error) error {
	return g.inTx(ctx, f, byReenter, fn)
}

func (g Guard) inTx(ctx context.Context, f guard.Fence, by entry, fn func(pgx.Tx) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return failed(ctx, "connect", err)
	}
	// A connection that is not idle is closed by the pool and not used again.
	defer conn.Release()

	tx, err := g.begin(ctx, conn, f, by)
	if err != nil {
		return err
	}
	ends := false
	defer func() {
		if !ends {
			_ = rollback(ctx, tx)
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if conn.Conn().PgConn().TxStatus() == 'I' {
		return fmt.Errorf("%w: the function ended the guarded transaction itself", guard.ErrUnknown)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("pgguard: rolled back: %w", ended(ctx))
	}
	ends = true
	if by == byClaim {
		return commit(ctx, func(ctx context.Context) error { return commitHeard(ctx, conn.Conn().PgConn()) })
	}
	return commit(ctx, func(ctx context.Context) error { return commitReported(ctx, tx) })
}

// begin begins and enters. A snapshot that turned out too old is judged by the
// next one: fn has not run yet, so that is not seen.
func (g Guard) begin(ctx context.Context, conn *pgxpool.Conn, f guard.Fence, by entry) (pgx.Tx, error) {
	for n := 1; ; n++ {
		tx, err := g.beginOnce(ctx, conn.Conn(), f, by)
		switch c := code(err); {
		case c == codeEnter:
			by = byEnter
		case c != codeSerializationFailure || n == snapshotsMax:
			return tx, err
		}
	}
}

func (g Guard) beginOnce(ctx context.Context, conn *pgx.Conn, f guard.Fence, by entry) (pgx.Tx, error) {
	begin := "begin"
	if g.isolation != "" {
		begin += " isolation level " + string(g.isolation)
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin + "; " + g.call(by, f)})
	if err == nil {
		return tx, nil
	}
	err = g.refused(ctx, "enter", f, f.Mark(), err)
	if !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
		defer cancel()
		if _, undone := conn.Exec(undo, "rollback"); undone != nil {
			return nil, fmt.Errorf("%w; pgguard: roll back: %w", err, undone)
		}
	}
	return nil, err
}

// rollback returns nil when tx has ended, in this call or before.
func rollback(ctx context.Context, tx pgx.Tx) error {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
	defer cancel()
	if err := tx.Rollback(undo); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("pgguard: roll back: %w", err)
	}
	return nil
}
