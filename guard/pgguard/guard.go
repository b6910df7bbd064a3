package pgguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
)

// Guard guards the resources of one database. It holds nothing but the pool and
// may be copied and used by many goroutines.
type Guard struct {
	pool      *pgxpool.Pool
	isolation pgx.TxIsoLevel
	wait      *time.Duration
}

var (
	_ guard.Claimer = Guard{}
	_ guard.Seer    = Guard{}
)

// New returns the guard of the database behind pool, which it neither opens nor closes.
// It sends statements in the pool's exec mode. So behind a pooler such as pgbouncer set
// DefaultQueryExecMode to pgx.QueryExecModeExec or pgx.QueryExecModeSimpleProtocol.
func New(pool *pgxpool.Pool) Guard {
	return Guard{pool: pool}
}

// Isolation returns the guard with the isolation level of the transactions that
// [Guard.InTx] begins; without it, the database's default. Claims are READ
// COMMITTED in any case.
func (g Guard) Isolation(level pgx.TxIsoLevel) Guard {
	g.isolation = level
	return g
}

// Wait returns the guard with another bound, in whole milliseconds, on the time that an
// operation waits for work of other tokens, and for locks on the guard's tables and
// rows, all together, before it fails with [ErrBusy]. 0 waits until the context ends.
// Without Wait the bound is the database's lock_timeout, or 10 seconds without one.
//
// A transaction whose fence equals the mark waits only for a session that locks the
// table pawl.guard against reading. Only the session's lock_timeout and the context
// bound that wait.
func (g Guard) Wait(d time.Duration) Guard {
	g.wait = &d
	return g
}

// bound is the wait_ms argument; nil is NULL.
func (g Guard) bound() *int64 {
	if g.wait == nil {
		return nil
	}
	ms := min(max(0, g.wait.Milliseconds()), 1<<31-1)
	return &ms
}

// waitMS is the SQL text of the wait_ms argument.
func (g Guard) waitMS() string {
	ms := g.bound()
	if ms == nil {
		return "NULL"
	}
	return strconv.FormatInt(*ms, 10)
}

// Claim raises the mark of f.Resource to f in a transaction of its own, see
// [guard.Claimer]. When it returns nil, no transaction that entered with a lower token
// is open and none will commit; a read that begins afterwards sees all that they did.
// It fails with [ErrBusy] when such a transaction does not end in time:
// [Guard.Blockers] names it, [Guard.Terminate] ends it.
//
// Its commit waits for the disk, and for the synchronous standbys if there are any,
// even where synchronous_commit is set to less and even where the mark was f before. If
// that wait was cancelled, the error is guard.ErrUnknown: claim again.
func (g Guard) Claim(ctx context.Context, f guard.Fence) error {
	return g.Isolation(pgx.ReadCommitted).inTx(ctx, f, byClaim, func(pgx.Tx) error { return nil })
}

// Seen returns the cell and the highest token that the database has committed
// for a resource, see [guard.Seer]; the zero State when it has seen none.
func (g Guard) Seen(ctx context.Context, resource string) (guard.State, error) {
	var cell string
	var token int64
	err := g.pool.QueryRow(ctx, "select cell, token from pawl.guard where resource = "+literal(resource)).Scan(&cell, &token)
	if errors.Is(err, pgx.ErrNoRows) {
		return guard.State{}, nil
	}
	if err != nil {
		return guard.State{}, failed(ctx, "read the mark", err)
	}
	return guard.State{Cell: cell, Seen: guard.Token(token)}, nil
}

// Blocker is a transaction that blocks a claim of a resource with a higher token. It is
// inside the resource's guard, or it locks the guard's table (as [Guard.Enforce] does
// until its transaction ends) or rows of it. Texts are empty if the calling role may
// not see them.
type Blocker struct {
	// PID is the backend's process id; 0 for a prepared transaction.
	PID int
	// Token is the one it entered under; 0 where it cannot be told, or where it is
	// not inside the guard.
	Token guard.Token
	// Prepared is the name that ROLLBACK PREPARED or COMMIT PREPARED takes.
	Prepared    string
	Role        string
	Application string
	Client      string // address; empty for a unix socket
	State       string // as in pg_stat_activity
	// Since is when the transaction began, by the database's clock; zero where it
	// cannot be told.
	Since time.Time
}

// Blockers lists the transactions that a claim of a resource would wait for.
func (g Guard) Blockers(ctx context.Context, resource string) ([]Blocker, error) {
	rows, err := g.pool.Query(ctx, `select coalesce(pid, 0), coalesce(token, 0), coalesce(prepared, ''), coalesce(role, ''),
		coalesce(application, ''), coalesce(client, ''), coalesce(state, ''), since
		from pawl.blockers(`+literal(resource)+`)`)
	if err != nil {
		return nil, failed(ctx, "list blockers", err)
	}
	blockers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Blocker, error) {
		var b Blocker
		var token int64
		var since *time.Time
		err := row.Scan(&b.PID, &token, &b.Prepared, &b.Role, &b.Application, &b.Client, &b.State, &since)
		if since != nil {
			b.Since = *since
		}
		b.Token = guard.Token(token)
		return b, err
	})
	if err != nil {
		return nil, failed(ctx, "list blockers", err)
	}
	return blockers, nil
}

// Terminate ends the sessions whose transactions are inside the guard of f.Resource
// under a token below f's, by pg_terminate_backend. It returns how many sessions it
// signalled; they may take a moment to end. Use it when a claim meets a holder that
// sleeps inside a transaction. The role needs the rights of pg_signal_backend.
// Terminate does not end prepared transactions: [Guard.Blockers] names them.
func (g Guard) Terminate(ctx context.Context, f guard.Fence) (int, error) {
	if err := f.Validate(); err != nil {
		return 0, err
	}
	var n int
	err := g.pool.QueryRow(ctx, "select pawl.terminate_blockers("+arguments(f)+")").Scan(&n)
	if err != nil {
		return 0, g.refused(ctx, "terminate blockers", f, f.Mark(), err)
	}
	return n, nil
}

// arguments are resource, cell and token as SQL.
func arguments(f guard.Fence) string {
	return fmt.Sprintf("%s, %s, %d", literal(f.Resource), literal(f.Cell), uint64(f.Token))
}
