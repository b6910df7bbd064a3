package pgguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlproject/pawl/guard"
)

// errDoubt: the mark may not be what was shown, so enter with the whole check.
var errDoubt = errors.New("pgguard: not known to be under the mark")

// These two statements do what pawl.reenter does. The driver prepares them and sends
// them in one message with BEGIN, which costs the database less than a function. Each
// returns one row for yes and none for no. They are separate so that the mark is read
// by a snapshot younger than the lock. Under the stricter levels, which may be the
// database's default, the first enters with the whole check, and the second reads its
// result. They have no subqueries, which would cost on each call.
const (
	lockShared = `select 1
		where case when pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.=) 'read committed'
			then pg_catalog.pg_try_advisory_xact_lock_shared(pawl.lock_key($1))
			else (pawl.enter($1, $2, $3, $4) is null) is not null end`
	underQuery = `select case when not g.watched then null
			when pg_catalog.current_setting('pawl.fence', true) operator(pg_catalog.<>) '' then pawl.pass($1)
			else pg_catalog.set_config('pawl.fence',
				array[pg_catalog.pg_current_xact_id()::pg_catalog.text, $1]::pg_catalog.text, true) end
		from pawl.guard g
		where g.resource operator(pg_catalog.=) $1 and g.cell operator(pg_catalog.=) $2 and g.token operator(pg_catalog.=) $3`
)

// under says whether a transaction may begin with lockShared and lookUnder on
// conn. What they are given is UTF-8.
func (g Guard) under(conn *pgx.Conn) bool {
	return g.prepares && (g.isolation == "" || g.isolation == pgx.ReadCommitted) &&
		conn.PgConn().ParameterStatus("client_encoding") == "UTF8"
}

// beginUnder begins and enters where the mark is likely to be f; errDoubt where
// it may not be. When it fails a transaction may be left open.
func (g Guard) beginUnder(ctx context.Context, conn *pgx.Conn, begin string, f guard.Fence) (pgx.Tx, error) {
	yes := 0
	count := func(rows pgconn.CommandTag) error {
		yes += int(rows.RowsAffected())
		return nil
	}
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{BeginQuery: begin})
	b.Queue(lockShared, f.Resource, f.Cell, int64(f.Token), g.bound()).Exec(count)
	b.Queue(underQuery, f.Resource, f.Cell, int64(f.Token)).Exec(count)
	results := conn.SendBatch(ctx, &b)
	if err := results.Close(); err != nil {
		return nil, err
	}
	if yes != 2 {
		return nil, errDoubt
	}
	return results.Tx(), nil
}
