package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/pawlproject/pawl/guard"
)

// Enter makes tx a transaction under f: it checks f against the mark and raises
// the mark to it, both as part of tx. It must be the first statement of tx and
// stand outside of every savepoint. Entering twice is allowed.
//
// When Enter returns an error it has rolled tx back, so that nothing can land
// by going on all the same: guard.ErrStale, guard.ErrForeign, guard.ErrMissing,
// guard.ErrMalformed, [ErrBusy], [ErrNotInstalled], or the driver's error.
//
// The caller's own tx.Commit may return an error although it took effect; take
// that for guard.ErrUnknown, as [Guard.InTx] does.
func (g Guard) Enter(ctx context.Context, tx *sql.Tx, f guard.Fence) error {
	err := g.enter(ctx, tx, f)
	if err != nil {
		return errors.Join(err, rollback(tx))
	}
	return nil
}

func (g Guard) enter(ctx context.Context, tx *sql.Tx, f guard.Fence) error {
	if err := f.Validate(); err != nil {
		return err
	}
	var token int64
	err := tx.QueryRowContext(ctx, g.dialect.enter, f.Resource, f.Cell, int64(f.Token)).Scan(&token)
	if err == nil {
		return nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return g.failed(ctx, "enter", err)
	}

	// Refused. The statement has locked the row, so this is what it saw.
	s, err := g.seen(ctx, tx, f.Resource)
	if err != nil {
		return g.failed(ctx, "enter: refused, and the mark cannot be read", err)
	}
	if _, v := guard.Decide(guard.Monotonic, s, f.Mark()); v.Err(f.Resource, s, f.Mark()) != nil {
		return v.Err(f.Resource, s, f.Mark())
	}
	// The mark would let f pass and the database does not: a trigger or a rule
	// of somebody else's is in the way. Closed is the safe side.
	return fmt.Errorf("sqlguard: enter: the database ignored the mark of %v", f)
}

// InTx runs fn in a transaction under f and commits it. fn does its reading and
// writing on the tx it is given and neither commits nor rolls it back.
//
//   - nil: the transaction is committed.
//   - guard.ErrUnknown: the commit was sent and its answer lost. It may have
//     taken effect.
//   - Everything else: nothing took effect. The errors are those of
//     [Guard.Enter], fn's own as it returned it, and the context's.
//
// When ctx ends the transaction is rolled back; a commit that has begun is not
// interrupted. A panic of fn rolls back and goes on.
func (g Guard) InTx(ctx context.Context, f guard.Fence, fn func(*sql.Tx) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	// One connection is held throughout, so that it can be thrown away when it is
	// not certain to be clean.
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return g.failed(ctx, "connect", err)
	}
	defer conn.Close()

	// The transaction follows ctx up to the commit and no further: a context that
	// ends while the answer is under way would make a known outcome unknown.
	txCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()

	tx, err := conn.BeginTx(txCtx, nil)
	if err != nil {
		return g.failed(ctx, "begin", err)
	}
	defer func() {
		if rollback(tx) != nil {
			discard(conn)
		}
	}()
	if err := g.enter(ctx, tx, f); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if !detach() {
		return fmt.Errorf("sqlguard: rolled back: %w", ended(ctx))
	}
	if err := tx.Commit(); err != nil {
		discard(conn)
		return g.commitFailed(err)
	}
	return nil
}

// commitFailed is called with the connection closed, which has rolled back a
// transaction that a refused commit left open.
func (g Guard) commitFailed(err error) error {
	switch g.dialect.failure(err) {
	case failedBusy:
		return fmt.Errorf("%w: commit: %w", ErrBusy, err)
	case failedCheck:
		return fmt.Errorf("sqlguard: commit: %w", err)
	}
	if errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("%w: the function ended the guarded transaction itself: %w", guard.ErrUnknown, err)
	}
	return fmt.Errorf("%w: commit: %w", guard.ErrUnknown, err)
}

// rollback returns nil when tx has ended, in this call or before.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("sqlguard: roll back: %w", err)
	}
	return nil
}

// discard closes the connection under conn rather than giving it back to the
// pool with what may still be an open transaction.
func discard(conn *sql.Conn) {
	// Raw hands the error back, which says nothing new.
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
