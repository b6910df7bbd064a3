package pgguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pawlproject/pawl/guard"
)

const (
	// commitGrace is how long a commit that is under way may go on once the
	// context has ended, before its outcome counts as unknown.
	commitGrace = 10 * time.Second
	// standbyWait is the PostgreSQL function that warns when its wait for a standby is
	// cancelled. Only its name identifies the warning: the text is in the server's
	// language, and the SQLSTATE is that of every warning.
	standbyWait = "SyncRepWaitForLSN"
	// cancelledWait is what ReportCancelledWaits leaves with a connection.
	cancelledWait = "pgguard: cancelled wait"
)

// errCancelledWait: a user that cancels a commit which waits for a synchronous standby
// (pg_cancel_backend, Ctrl-C in psql) makes it succeed, with a warning.
var errCancelledWait = errors.New("committed here, but the wait for a synchronous standby was cancelled: a failover may forget it")

// undecided is the error of a commit that was sent, and may last or not.
type undecided struct{ error }

func (u undecided) Unwrap() error { return u.error }

// ReportCancelledWaits configures connections that are made from c to report when a
// commit's wait for a synchronous standby was cancelled (pg_cancel_backend). PostgreSQL
// calls such a commit a success, with a warning; [Guard.InTx] then returns
// guard.ErrUnknown.
//
// Call it on the configuration of the guard's pool before the pool is made. It keeps
// c's OnNotice. [Guard.Claim] notices such a wait without it; a Commit of the caller's
// own, after [Guard.Enter], does not notice it even with it.
func ReportCancelledWaits(c *pgx.ConnConfig) {
	next := c.OnNotice
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Routine == standbyWait {
			conn.CustomData()[cancelledWait] = true
		}
		if next != nil {
			next(conn, n)
		}
	}
}

// commit sends a commit. Once it is sent, only the database's word that it failed is
// taken for that.
func commit(ctx context.Context, send func(context.Context) error) error {
	sent, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, func() {
		grace, stop := context.WithTimeout(sent, commitGrace)
		defer stop()
		<-grace.Done()
		cancel()
	})
	defer detach()

	err := send(sent)
	_, open := errors.AsType[undecided](err)
	e, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("pgguard: commit: a statement had failed before: %w", err)
	case answered && e.SeverityUnlocalized == "ERROR", !open && pgconn.SafeToRetry(err):
		return failed(context.Background(), "commit", err)
	}
	return fmt.Errorf("%w: commit: %w", guard.ErrUnknown, err)
}

// commitReported commits tx, and hears of a cancelled wait from [ReportCancelledWaits],
// where the pool was made with it.
func commitReported(ctx context.Context, tx pgx.Tx) error {
	told := tx.Conn().PgConn().CustomData()
	delete(told, cancelledWait)
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if told[cancelledWait] != nil {
		return undecided{errCancelledWait}
	}
	return nil
}

// commitHeard commits the transaction of conn and reads the whole answer itself: the
// driver passes a warning only to a handler that was set when the pool was made. The
// driver's pgx.Tx does not learn that it has ended, so no caller may hold it.
func commitHeard(ctx context.Context, conn *pgconn.PgConn) error {
	out := conn.Frontend()
	out.Send(&pgproto3.Query{String: "commit"})
	if err := out.Flush(); err != nil {
		return undecided{err}
	}
	var outcome error
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return undecided{errors.Join(outcome, err)}
		}
		switch m := message.(type) {
		case *pgproto3.NoticeResponse:
			if m.Routine == standbyWait {
				outcome = undecided{errCancelledWait}
			}
		case *pgproto3.ErrorResponse:
			outcome = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CommandComplete:
			if string(m.CommandTag) == "ROLLBACK" {
				outcome = pgx.ErrTxCommitRollback
			}
		case *pgproto3.ReadyForQuery:
			return outcome
		}
	}
}
