package demo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the driver of the ledger

	"github.com/pawlproject/pawl/guard"
)

// entry is a row of the ledger. Whoever adds one writes the balance that it
// worked out from the balance it had read: an update that is lost shows.
type entry struct {
	Who     string      `json:"who"`
	Amount  int64       `json:"amount,string"`
	Balance int64       `json:"balance,string"`
	Token   guard.Token `json:"fencing_token,omitzero"`
}

// openingBalance is what the first row says.
const openingBalance = 100

// ledger is an account in a SQLite database.
type ledger struct{ db *sql.DB }

func openLedger(path string) (*ledger, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &ledger{db}, nil
}

func (l *ledger) close() error { return l.db.Close() }

// create makes a ledger with nothing but its opening balance.
func (l *ledger) create(ctx context.Context) error {
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
	return l.add(ctx, l.db, entry{Who: "opening", Balance: openingBalance})
}

// execer is a *sql.DB or, under the guard, a *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (l *ledger) add(ctx context.Context, to execer, e entry) error {
	_, err := to.ExecContext(ctx, `INSERT INTO ledger (who, amount, balance, token) VALUES (?, ?, ?, ?)`,
		e.Who, e.Amount, e.Balance, int64(e.Token))
	if err != nil {
		return fmt.Errorf("add to the ledger: %w", err)
	}
	return nil
}

// balance reads the last one.
func (l *ledger) balance(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT balance FROM ledger ORDER BY number DESC LIMIT 1`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read the balance: %w", err)
	}
	return n, nil
}

func (l *ledger) entries(ctx context.Context) ([]entry, error) {
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
