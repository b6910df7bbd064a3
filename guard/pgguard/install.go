package pgguard

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// version is that of guard.sql.
const version = 4

//go:embed guard.sql
var ddl string

// DDL returns the SQL that creates the guard's schema, for users with migrations of
// their own. Run its statements in one transaction, as a role that may create a schema.
// Running it again changes nothing; where a newer version is installed it fails.
func DDL() string { return ddl }

// Install creates the guard's schema, or brings an older one up to date. An update
// keeps marks, offsets and rules; programs with an older version of this package go on.
// It neither waits for transactions inside the guard nor blocks them, unless the
// guard's own triggers have been disabled.
//
// Many processes may call Install at every start, at once. Where the schema is current,
// it needs no rights. Otherwise the role must be allowed to create a schema in the
// database ([ErrForbidden]), and owns what it creates: writers of other roles need
// [Guard.Grant].
func (g Guard) Install(ctx context.Context) error {
	installed, err := g.installed(ctx)
	if err != nil || installed {
		return err
	}
	return g.inOwnTx(ctx, "install", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, ddl) // which takes turns
		if code(err) == codeForbidden {
			return fmt.Errorf("the role may not make the schema pawl, or bring it up to date; have the output of DDL run by one that may: %w", err)
		}
		return err
	})
}

// installed asks the catalog, which every role may read.
func (g Guard) installed(ctx context.Context) (bool, error) {
	var have int
	err := g.pool.QueryRow(ctx, `select coalesce(substring(obj_description(c.oid, 'pg_class') from 'version ([0-9]+)')::int, 0)
		from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'pawl' and c.relname = 'guard'`).Scan(&have)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, failed(ctx, "look for the guard", err)
	}
	return have >= version, nil
}

// Grant lets a role use the guard: enter, read marks and offsets, and enforce it on its
// own tables. The role cannot write marks in any other way. The caller must be the role
// that installed the guard, and must call Grant again for each role when
// [Guard.Install] has installed a newer version.
func (g Guard) Grant(ctx context.Context, role string) error {
	return g.inOwnTx(ctx, "grant", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select pawl.admit("+literal(role)+")")
		return err
	})
}

// inOwnTx runs fn in a READ COMMITTED transaction. Everything it is used for may
// be done again, so a lost answer is an error like any other.
func (g Guard) inOwnTx(ctx context.Context, doing string, fn func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, g.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
	if err != nil {
		return failed(ctx, doing, err)
	}
	return nil
}
