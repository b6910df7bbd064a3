package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// The two journal modes of SQLite lock differently. With the write-ahead log readers
// and the writer run at the same time; with the rollback journal a reader blocks a
// commit.
const (
	wal      = "wal"
	rollback = "delete"
)

// The busy timeouts, in milliseconds: answer at once, or wait for others.
const (
	atOnce = "0"
	wait   = "20000"
)

const cell = "test-00000000000000aa"

func fence(resource string, t guard.Token) guard.Fence {
	return guard.Fence{Resource: resource, Token: t, Cell: cell}
}

// database is a SQLite file with the guard and a table of texts, and ways to
// disturb it.
type database struct {
	*sql.DB
	guard sqlguard.Guard
	wire  *wire
}

// open opens the file path, which may be there already. It does not sync to
// disk: no test here cuts the power.
func open(t testing.TB, path, journal, busyTimeout string) *database {
	t.Helper()
	query := url.Values{"_pragma": {
		"busy_timeout(" + busyTimeout + ")", "journal_mode(" + journal + ")", "synchronous(off)", "foreign_keys(on)",
	}}
	connector, err := sqlite.NewConnector("file:" + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Connector: connector}
	d := &database{DB: sql.OpenDB(w), wire: w}
	d.guard = sqlguard.New(d.DB, sqlguard.SQLite())
	t.Cleanup(func() {
		if n := d.Stats().InUse; n != 0 {
			t.Errorf("%d connections are still in use", n)
		}
		d.Close()
	})
	d.mustExec(t, `CREATE TABLE IF NOT EXISTS list (
		id INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT NOT NULL, text TEXT NOT NULL)`)
	if err := d.guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// fresh opens a file that is not there yet.
func fresh(t testing.TB, journal, busyTimeout string) *database {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "guarded.db"), journal, busyTimeout)
}

func (d *database) mustExec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// add is the work that the transactions of the tests do.
func add(ctx context.Context, tx *sql.Tx, resource, text string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO list (resource, text) VALUES (?, ?)`, resource, text)
	return err
}

func (d *database) append(ctx context.Context, f guard.Fence, text string) error {
	return d.guard.InTx(ctx, f, func(tx *sql.Tx) error { return add(ctx, tx, f.Resource, text) })
}

func (d *database) read(ctx context.Context, resource string) ([]string, error) {
	rows, err := d.QueryContext(ctx, `SELECT text FROM list WHERE resource = ? ORDER BY id`, resource)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// errLost is what a client sees of a connection that broke.
var errLost = errors.New("wire: connection reset by peer")

// wire is a connector whose connections can fail at a commit, as one over a
// network does.
type wire struct {
	driver.Connector
	// onCommit is taken by the next commit, which calls it with the real one and
	// returns what it returns.
	onCommit atomic.Pointer[func(tx driver.Tx) error]
	// failRollback makes the next rollback fail and leave the transaction open.
	failRollback atomic.Bool
}

// loseAnswer makes the answer to the next commit get lost, after the database
// committed (landed) or before it heard of it.
func (w *wire) loseAnswer(landed bool) {
	w.atCommit(func(tx driver.Tx) error {
		end := tx.Rollback
		if landed {
			end = tx.Commit
		}
		return errors.Join(errLost, end())
	})
}

func (w *wire) atCommit(f func(tx driver.Tx) error) { w.onCommit.Store(&f) }

func (w *wire) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return wiredConn{c.(sqliteConn), w}, nil
}

// sqliteConn is what database/sql uses of the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type wiredConn struct {
	sqliteConn
	wire *wire
}

func (c wiredConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return wiredTx{tx, c.wire}, nil
}

type wiredTx struct {
	driver.Tx
	wire *wire
}

func (t wiredTx) Commit() error {
	if f := t.wire.onCommit.Swap(nil); f != nil {
		return (*f)(t.Tx)
	}
	return t.Tx.Commit()
}

func (t wiredTx) Rollback() error {
	if t.wire.failRollback.Swap(false) {
		return errLost
	}
	return t.Tx.Rollback()
}
