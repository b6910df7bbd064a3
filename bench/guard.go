package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// guardConnections is how many transactions of one holder run at a time.
const guardConnections = 8

const (
	unguarded = "no guard"
	guarded   = "pgguard"
	enforced  = "pgguard, enforced by trigger"
)

// guards measures what a guard costs: transactions of one holder, each of which
// updates a row of its own, under pgguard and without it. PostgreSQL syncs its
// log at every commit, as it comes.
func (f *full) guards(ctx context.Context) error {
	server, err := f.kit.postgresServer(ctx, f.folder)
	if err != nil {
		return err
	}
	f.atEnd(server.stop)
	pool, err := server.pool(ctx, guardConnections)
	if err != nil {
		return err
	}
	f.atEnd(pool.Close)
	g := pgguard.New(pool)
	if err := g.Install(ctx); err != nil {
		return err
	}
	fence := guard.Fence{Resource: "orders", Token: 42, Cell: "bench-00000000000000aa"}
	// Another resource, as entering costs more where something is enforced.
	ruled := guard.Fence{Resource: "ruled", Token: 43, Cell: fence.Cell}
	if err := errors.Join(g.Claim(ctx, fence), g.Claim(ctx, ruled)); err != nil {
		return err
	}
	for _, table := range []string{"none", "entered", "ruled"} {
		if err := rowsFor(ctx, pool, table, guardConnections); err != nil {
			return err
		}
	}
	if err := g.Enforce(ctx, "ruled", pgguard.Rule{Resource: ruled.Resource}); err != nil {
		return err
	}
	plain := func(ctx context.Context, fn func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, fn) }
	under := func(ctx context.Context, fn func(pgx.Tx) error) error { return g.InTx(ctx, fence, fn) }
	byTrigger := func(ctx context.Context, fn func(pgx.Tx) error) error { return g.InTx(ctx, ruled, fn) }
	what := fmt.Sprintf("transactions/s, %d connections", guardConnections)
	servers := []*process{server.process}
	t, err := f.contests(ctx, "guard", []contest{{what, guardConnections, []side{
		{unguarded, updates(plain, "none"), nil, servers},
		{guarded, updates(under, "entered"), nil, servers},
		{enforced, updates(byTrigger, "ruled"), nil, servers},
	}}})
	if err == nil {
		f.report.note("guard", times(t.row(what, guarded), t.row(what, unguarded)))
	}
	return err
}

func rowsFor(ctx context.Context, pool *pgxpool.Pool, table string, n int) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(
		"create table %s (id int primary key, n bigint not null) with (fillfactor = 50); insert into %s select i, 0 from generate_series(0, %d) i", table, table, n-1))
	return err
}

// updates lets every caller count in its own row, a transaction each time.
func updates(inTx func(context.Context, func(pgx.Tx) error) error, table string) acquireFunc {
	statement := "update " + table + " set n = n + 1 where id = $1"
	return func(ctx context.Context, caller int) (held, error) {
		err := inTx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, statement, caller)
			return err
		})
		return held{release: func(context.Context) error { return nil }}, err
	}
}

func (s *postgresServer) pool(ctx context.Context, connections int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	c.MinConns, c.MaxConns = connections, connections
	return pgxpool.NewWithConfig(ctx, c)
}
