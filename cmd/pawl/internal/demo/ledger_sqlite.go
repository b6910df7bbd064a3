package demo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of the ledger

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// sqlitePlace has ledgers in a folder that its owner removes.
type sqlitePlace struct{ folder string }

func (sqlitePlace) setting() Setting { return Setting{Ledger: "SQLite", Guard: "sqlguard"} }

func (p sqlitePlace) ledger(_ context.Context, a Act) (ledger, []string, []string, error) {
	path := filepath.Join(p.folder, "ledger-"+a.String()+".db")
	book, err := openSQLite(path)
	return book, []string{"--ledger", path}, nil, err
}

func (sqlitePlace) remove() error { return nil }

// sqliteLedger is an account in a SQLite database.
type sqliteLedger struct {
	db *sql.DB
	sqlguard.Guard
}

func openSQLite(path string) (*sqliteLedger, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &sqliteLedger{db, sqlguard.New(db, sqlguard.SQLite())}, nil
}

func (l *sqliteLedger) close() { _ = l.db.Close() }

func (l *sqliteLedger) create(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, `CREATE TABLE ledger (
	number  INTEGER PRIMARY KEY,
	who     TEXT NOT NULL,
	amount  INTEGER NOT NULL,
	balance INTEGER NOT NULL,
	token   INTEGER NOT NULL
)`)
	if err != nil {
		return fmt.Errorf("create the ledger: %w", err)
	}
	return l.add(ctx, entry{Who: "opening", Balance: openingBalance})
}

func (l *sqliteLedger) install(ctx context.Context) error { return l.Install(ctx) }

// execer is a *sql.DB or, under the guard, a *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (l *sqliteLedger) add(ctx context.Context, e entry) error { return l.addTo(ctx, l.db, e) }

func (l *sqliteLedger) addUnder(ctx context.Context, f guard.Fence, e entry) error {
	return l.InTx(ctx, f, func(tx *sql.Tx) error { return l.addTo(ctx, tx, e) })
}

func (l *sqliteLedger) addTo(ctx context.Context, to execer, e entry) error {
	_, err := to.ExecContext(ctx, `INSERT INTO ledger (who, amount, balance, token) VALUES (?, ?, ?, ?)`,
		e.Who, e.Amount, e.Balance, int64(e.Token))
	if err != nil {
		return fmt.Errorf("add to the ledger: %w", err)
	}
	return nil
}

func (l *sqliteLedger) balance(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT balance FROM ledger ORDER BY number DESC LIMIT 1`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read the balance: %w", err)
	}
	return n, nil
}

func (l *sqliteLedger) entries(ctx context.Context) ([]entry, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT who, amount, balance, token FROM ledger ORDER BY number`)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	var all []entry
	for rows.Next() {
		var e entry
		var token int64
		if err := rows.Scan(&e.Who, &e.Amount, &e.Balance, &token); err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		e.Token = guard.Token(token)
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return all, nil
}
