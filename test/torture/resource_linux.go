package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// resource is a guarded counter, with an entry for every write that was accepted. Every
// name has a database of its own, so that nobody waits for a holder that is stopped in
// the middle of a write but those who want the same name.
type resource struct {
	db   *sql.DB
	name string
	sqlguard.Guard
}

// openResource opens that of a name, and makes it if need be.
func openResource(folder, name string) (*resource, error) {
	settings := url.Values{
		"_txlock": {"immediate"},
		// Processes are killed here and the machine is not, so nothing has to reach a disk.
		"_pragma": {"busy_timeout(3000)", "journal_mode(WAL)", "synchronous(OFF)"},
	}
	path := filepath.Join(folder, "resources", strings.ReplaceAll(name, "/", "-")+".db")
	db, err := sql.Open("sqlite", "file:"+path+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	r := &resource{db: db, name: name, Guard: sqlguard.New(db, sqlguard.SQLite())}
	ctx := context.Background()
	err = r.Install(ctx)
	for _, table := range []string{
		"create table if not exists balances (name text primary key, balance integer not null)",
		"create table if not exists entries (id integer primary key autoincrement, token integer not null, balance integer not null)",
	} {
		if err == nil {
			_, err = db.ExecContext(ctx, table)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the resource %q: %w", name, err), db.Close())
	}
	return r, nil
}

func (r *resource) close() error { return r.db.Close() }

// all are the entries in their order, and the balance.
func (r *resource) all(ctx context.Context) (all []entry, balance int64, err error) {
	rows, err := r.db.QueryContext(ctx, "select token, balance from entries order by id")
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.token, &e.balance); err != nil {
			return nil, 0, err
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	if err := rows.Close(); err != nil { // the one connection
		return nil, 0, err
	}
	balance, err = r.balance(ctx)
	return all, balance, err
}

func (r *resource) balance(ctx context.Context) (balance int64, err error) {
	err = r.db.QueryRowContext(ctx, "select coalesce(max(balance), 0) from balances").Scan(&balance)
	return balance, err
}

// clerk writes under one fence. It reads the balance once and counts on by itself, so a
// write that lands behind its back is lost, or loses the clerk's.
type clerk struct {
	*resource
	fence   guard.Fence
	balance int64
}

func (r *resource) clerk(ctx context.Context, f guard.Fence) (*clerk, error) {
	balance, err := r.balance(ctx)
	return &clerk{resource: r, fence: f, balance: balance}, err
}

// write adds 1 to the balance.
func (c *clerk) write(ctx context.Context) error {
	err := c.InTx(ctx, c.fence, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into balances values (?, ?)
			on conflict (name) do update set balance = excluded.balance`, c.name, c.balance+1)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "insert into entries (token, balance) values (?, ?)", int64(c.fence.Token), c.balance+1)
		return err
	})
	if err == nil {
		c.balance++
	}
	return err
}
