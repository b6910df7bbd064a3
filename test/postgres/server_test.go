//go:build unix

package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testwait"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// server is shared: each test has a database of its own in it. It is nil under
// -short.
var server *testpostgres.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		// Tests skip by themselves and examples cannot.
		if err := flag.Set("test.run", "^Test"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	var err error
	server, err = testpostgres.Start(testpostgres.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// wholly skips a test that needs the server.
func wholly(t testing.TB) {
	t.Helper()
	if server == nil {
		t.Skip("starts PostgreSQL")
	}
}

// bound ends a test that hangs; nothing waits for it.
const bound = time.Minute

const cell = "test-00000000000000aa"

func fence(resource string, t guard.Token) guard.Fence {
	return guard.Fence{Resource: resource, Token: t, Cell: cell}
}

// database is a database with the guard and a table of texts.
type database struct {
	*pgxpool.Pool
	guard pgguard.Guard
	dsn   string
	wire  *wire
}

var databases atomic.Int64

// fresh makes a database and installs the guard in it.
func fresh(t testing.TB) *database {
	t.Helper()
	d := bare(t)
	if err := d.guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// bare makes a database without the guard.
func bare(t testing.TB) *database {
	t.Helper()
	wholly(t)
	dsn, err := createDatabase(t.Context(), server, fmt.Sprintf("test%d", databases.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, dsn)
	d.mustExec(t, `create table list (id bigserial primary key, resource text not null, text text not null)`)
	return d
}

// open opens a pool on the database of dsn.
func open(t testing.TB, dsn string, change ...func(*pgxpool.Config)) *database {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{dial: config.ConnConfig.DialFunc}
	config.ConnConfig.DialFunc = w.connect
	config.MaxConns = 40
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A connection that was broken off is taken down behind the caller's back.
		if !testwait.Holds(bound, func() bool { return pool.Stat().AcquiredConns() == 0 }) {
			t.Errorf("%d connections are still in use", pool.Stat().AcquiredConns())
		}
		pool.Close()
	})
	return &database{Pool: pool, guard: pgguard.New(pool), dsn: dsn, wire: w}
}

func (d *database) mustExec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := d.Exec(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// add is the work that the transactions of the tests do.
func add(ctx context.Context, tx pgx.Tx, resource, text string) error {
	_, err := tx.Exec(ctx, `insert into list (resource, text) values ($1, $2)`, resource, text)
	return err
}

func (d *database) append(ctx context.Context, f guard.Fence, text string) error {
	return d.guard.InTx(ctx, f, func(tx pgx.Tx) error { return add(ctx, tx, f.Resource, text) })
}

func (d *database) read(ctx context.Context, resource string) ([]string, error) {
	rows, err := d.Query(ctx, `select text from list where resource = $1 order by id`, resource)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func TestServerIsUnprivileged(t *testing.T) {
	wholly(t)
	pid, err := server.PID()
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("no /proc here")
	}
	if strings.Contains(string(status), "\nUid:\t0") {
		t.Error("the server runs as root")
	}
}
