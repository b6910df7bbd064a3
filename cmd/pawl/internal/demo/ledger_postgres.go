package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// postgresEnv hands the DSN to the workers: others can read arguments.
const postgresEnv = "PAWL_DEMO_POSTGRES"

// postgresPlace is a database of its own on a server of the user's. The guard is
// a schema with a fixed name, and in a database that others use it would stay.
type postgresPlace struct {
	dsn, database string
}

// dropMax bounds the removal of the database.
const dropMax = 10 * time.Second

func makePostgres(ctx context.Context, dsn string) (*postgresPlace, error) {
	var random [8]byte
	rand.Read(random[:])
	p := &postgresPlace{dsn: dsn, database: "pawl_demo_" + hex.EncodeToString(random[:])}
	err := p.aside(ctx, "CREATE DATABASE "+p.database)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42501" {
		return nil, fmt.Errorf("the demo makes a database of its own, and the role may not: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("make the demo's database: %w", err)
	}
	return p, nil
}

func (p *postgresPlace) setting() Setting {
	return Setting{Ledger: "PostgreSQL", Guard: "pgguard", Where: "database " + p.database}
}

// aside runs a statement in the database that the DSN names.
func (p *postgresPlace) aside(ctx context.Context, sql string) error {
	db, err := pgdsn.Parse(p.dsn)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, db.Config.ConnConfig)
	if err != nil {
		return db.Error(err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return db.Error(err)
}

func (p *postgresPlace) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), dropMax)
	defer cancel()
	if err := p.aside(ctx, "DROP DATABASE IF EXISTS "+p.database+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the demo's database %s: %w", p.database, err)
	}
	return nil
}

func (p *postgresPlace) ledger(ctx context.Context, a Act) (ledger, []string, []string, error) {
	table := "ledger_" + a.String()
	book, err := openPostgres(ctx, p.dsn, p.database, table)
	return book, []string{"--database", p.database, "--ledger", table}, []string{postgresEnv + "=" + p.dsn}, err
}

// postgresLedger is an account in a table of PostgreSQL.
type postgresLedger struct {
	db    pgdsn.Database
	pool  *pgxpool.Pool
	table string
	pgguard.Guard
}

func openPostgres(ctx context.Context, dsn, database, table string) (*postgresLedger, error) {
	db, err := pgdsn.Parse(dsn)
	if err != nil {
		return nil, err
	}
	db.Config.ConnConfig.Database = database
	pool, err := pgxpool.NewWithConfig(ctx, db.Config)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", db.Error(err))
	}
	return &postgresLedger{db, pool, pgx.Identifier{table}.Sanitize(), pgguard.New(pool)}, nil
}

func (l *postgresLedger) close() { l.pool.Close() }

func (l *postgresLedger) create(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, "CREATE TABLE "+l.table+` (
	number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	who     text NOT NULL,
	amount  bigint NOT NULL,
	balance bigint NOT NULL,
	token   bigint NOT NULL
)`)
	if err != nil {
		return fmt.Errorf("create the ledger: %w", l.db.Error(err))
	}
	return l.add(ctx, entry{Who: "opening", Balance: openingBalance})
}

func (l *postgresLedger) install(ctx context.Context) error { return l.Install(ctx) }

// pgExecer is a pool or, under the guard, a transaction.
type pgExecer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (l *postgresLedger) add(ctx context.Context, e entry) error { return l.addTo(ctx, l.pool, e) }

func (l *postgresLedger) addUnder(ctx context.Context, f guard.Fence, e entry) error {
	return l.InTx(ctx, f, func(tx pgx.Tx) error { return l.addTo(ctx, tx, e) })
}

func (l *postgresLedger) addTo(ctx context.Context, to pgExecer, e entry) error {
	_, err := to.Exec(ctx, "INSERT INTO "+l.table+" (who, amount, balance, token) VALUES ($1, $2, $3, $4)",
		e.Who, e.Amount, e.Balance, int64(e.Token))
	if err != nil {
		return fmt.Errorf("add to the ledger: %w", l.db.Error(err))
	}
	return nil
}

func (l *postgresLedger) balance(ctx context.Context) (n int64, err error) {
	err = l.pool.QueryRow(ctx, "SELECT balance FROM "+l.table+" ORDER BY number DESC LIMIT 1").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read the balance: %w", l.db.Error(err))
	}
	return n, nil
}

func (l *postgresLedger) entries(ctx context.Context) ([]entry, error) {
	rows, err := l.pool.Query(ctx, "SELECT who, amount, balance, token FROM "+l.table+" ORDER BY number")
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", l.db.Error(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e entry, err error) {
		var token int64
		err = row.Scan(&e.Who, &e.Amount, &e.Balance, &token)
		e.Token = guard.Token(token)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", l.db.Error(err))
	}
	return all, nil
}
