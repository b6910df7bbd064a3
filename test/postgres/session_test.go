//go:build unix

package postgres

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// session is one connection, for the races that are told step by step. It speaks
// SQL alone, as a program without our library does.
type session struct {
	*pgx.Conn
	t   *testing.T
	db  *database
	pid int
}

func (d *database) session(t *testing.T) *session {
	t.Helper()
	return d.as(t, d.dsn)
}

// as opens a session with another connection string.
func (d *database) as(t *testing.T, dsn string) *session {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return &session{Conn: conn, t: t, db: d, pid: int(conn.PgConn().PID())}
}

// try runs statements, one message and one snapshot each, up to the first that
// fails.
func (s *session) try(statements ...string) error {
	for _, sql := range statements {
		if _, err := s.Exec(s.t.Context(), sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) must(statements ...string) {
	s.t.Helper()
	if err := s.try(statements...); err != nil {
		s.t.Fatalf("%q: %v", statements, err)
	}
}

// refused runs statements of which the last one must fail with an SQLSTATE.
func (s *session) refused(want string, statements ...string) {
	s.t.Helper()
	last := len(statements) - 1
	s.must(statements[:last]...)
	wantCode(s.t, s.try(statements[last]), want)
}

// blocked starts a statement that must be held back by others, and returns how
// it ends.
func (s *session) blocked(sql string) <-chan error {
	s.t.Helper()
	end := make(chan error, 1)
	go func() { end <- s.try(sql) }()
	s.db.waits(s.t, s.pid)
	return end
}

// waits returns when a backend waits for others.
func (d *database) waits(t *testing.T, pid int) {
	t.Helper()
	testwait.Until(t, bound, "a backend that waits for a lock", func() bool {
		return d.count(t, `select cardinality(pg_blocking_pids($1))`, pid) > 0
	})
}

// waiters returns when n backends of the database wait for locks.
func (d *database) waiters(t *testing.T, n int) {
	t.Helper()
	testwait.Until(t, bound, "backends that wait for locks", func() bool {
		return d.count(t, `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`) >= n
	})
}

func (d *database) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := d.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != want {
		t.Errorf("got %v, want SQLSTATE %s", err, want)
	}
}

func wantEnd(t *testing.T, end <-chan error, want string) {
	t.Helper()
	err := <-end
	if want == "" {
		if err != nil {
			t.Errorf("got %v, want no error", err)
		}
		return
	}
	wantCode(t, err, want)
}

// wantList fails unless the list of resource holds exactly texts.
func (d *database) wantList(t *testing.T, resource string, texts ...string) {
	t.Helper()
	got, err := d.read(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, texts) {
		t.Errorf("the list of %q is %q, want %q", resource, got, texts)
	}
}

func (d *database) mustClaim(t *testing.T, f guard.Fence) {
	t.Helper()
	if err := d.guard.Claim(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// wantOnly fails unless err is want and none of the other outcomes.
func wantOnly(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	wantNone(t, err, want)
}

// wantNone fails when err is an outcome other than the expected ones.
func wantNone(t *testing.T, err error, expected ...error) {
	t.Helper()
	for _, other := range []error{
		guard.ErrStale, guard.ErrForeign, guard.ErrMissing, guard.ErrMalformed, guard.ErrOutOfTurn, guard.ErrUnknown,
		pgguard.ErrBusy, pgguard.ErrNotInstalled, pgguard.ErrUnclaimed, pgguard.ErrForbidden,
	} {
		if errors.Is(err, other) && !slices.Contains(expected, other) {
			t.Errorf("%v is %v", err, other)
		}
	}
}

// What the sessions say.
const (
	begin           = `begin`
	beginRepeatable = `begin isolation level repeatable read`
	commit          = `commit`
	enter5          = `select pawl.enter('x', '` + cell + `', 5)`
	enter6          = `select pawl.enter('x', '` + cell + `', 6)`
	late            = `insert into list (resource, text) values ('x', 'late')`
	young           = `insert into list (resource, text) values ('x', 'young')`
)
