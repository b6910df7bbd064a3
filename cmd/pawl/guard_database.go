package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver behind sqlguard

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// errDSN: no kind of database that is known here is named so. What the drivers
// say of a name that they cannot read is not passed on: it may hold a password.
var errDSN = errors.New(`expected postgres://USER@HOST:PORT/DATABASE, "host=HOST dbname=DATABASE", or sqlite:PATH`)

// marks are the guard of an open database.
type marks interface {
	Seen(ctx context.Context, resource string) (guard.State, error)
	Claim(ctx context.Context, f guard.Fence) error
}

// guarded is an open database.
type guarded struct {
	marks
	close func()
	// textOf is what may be printed of an error, on one line.
	textOf func(err error) string
	// explain finds the exit code of an error of this kind of database, and what
	// to do about it.
	explain func(err error) (code int, advice string)
}

func openGuarded(dsn string, wait time.Duration) (*guarded, error) {
	kind, path, _ := strings.Cut(dsn, ":")
	keyword, _, keywords := strings.Cut(dsn, "=")
	switch {
	case kind == "sqlite" && path != "":
		return openSQLite(path, wait)
	case kind == "postgres", kind == "postgresql", keywords && !strings.ContainsAny(keyword, ":/"):
		return openPostgres(dsn, wait)
	}
	return nil, errDSN
}

func openSQLite(path string, wait time.Duration) (*guarded, error) {
	// The driver would make what is missing.
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, exit.Failed(exit.CodeUnavailable, "no database %s: %v", path, errors.Unwrap(err))
	case info.IsDir():
		return nil, exit.Failed(exit.CodeUnavailable, "no database %s: it is a folder", path)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, exit.Failed(exit.CodeUnavailable, "no database %s: %v", path, err)
	}
	dsn := url.URL{Scheme: "file", Path: full, RawQuery: fmt.Sprintf("mode=rw&_pragma=busy_timeout(%d)", wait.Milliseconds())}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, errDSN
	}
	return &guarded{
		marks: sqlguard.New(db, sqlguard.SQLite()), close: func() { _ = db.Close() },
		textOf: pgdsn.OneLine, explain: explainSQLite,
	}, nil
}

// Primary result codes of SQLite.
const (
	sqlitePerm     = 3
	sqliteReadOnly = 8
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

func explainSQLite(err error) (code int, advice string) {
	switch {
	case errors.Is(err, sqlguard.ErrNotInstalled):
		return exit.CodeData, "; \"pawl guard ddl --dialect sqlite\" prints what makes it"
	case errors.Is(err, sqlguard.ErrBusy):
		return exit.CodeNotAcquired, ""
	}
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		switch e.Code() & 0xff {
		case sqliteNotADB:
			return exit.CodeData, ""
		case sqliteCantOpen:
			return exit.CodeUnavailable, ""
		case sqlitePerm, sqliteReadOnly:
			return exit.CodeDenied, ""
		}
	}
	return exit.CodeOther, ""
}

// postgresMarks tells whom a claim waited for in vain.
type postgresMarks struct{ pgguard.Guard }

func (m postgresMarks) Claim(ctx context.Context, f guard.Fence) error {
	err := m.Guard.Claim(ctx, f)
	if !errors.Is(err, pgguard.ErrBusy) {
		return err
	}
	blockers, listing := m.Blockers(ctx, f.Resource)
	if listing != nil {
		return err
	}
	for _, b := range blockers {
		who := fmt.Sprintf("process %d", b.PID)
		if b.Prepared != "" {
			who = "the prepared transaction " + output.Text(b.Prepared)
		}
		if b.Token != 0 {
			who += " with token " + b.Token.String()
		}
		err = fmt.Errorf("%w; in the way is %s (role %s, application %s, %s) since %s",
			err, who, output.Text(b.Role), output.Text(b.Application), output.Text(b.State), b.Since.UTC().Format(time.RFC3339))
	}
	return err
}

func openPostgres(dsn string, wait time.Duration) (*guarded, error) {
	db, err := pgdsn.Parse(dsn)
	if err != nil {
		return nil, errDSN
	}
	config := db.Config
	config.MaxConns, config.MinConns = 2, 0
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "pawl guard"
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, errDSN
	}
	return &guarded{
		marks: postgresMarks{pgguard.New(pool).Wait(max(wait, time.Millisecond))}, close: pool.Close,
		textOf: db.Text, explain: explainPostgres,
	}, nil
}

func explainPostgres(err error) (code int, advice string) {
	e, said := errors.AsType[*pgconn.PgError](err)
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case said && strings.HasPrefix(e.Code, "28"): // invalid authorization
		return exit.CodeDenied, ""
	case unconnected:
		return exit.CodeUnavailable, ""
	case errors.Is(err, pgguard.ErrNotInstalled):
		return exit.CodeData, "; \"pawl guard ddl --dialect postgres\" prints what makes it, and what brings an older one up to date"
	case errors.Is(err, pgguard.ErrBusy):
		return exit.CodeNotAcquired, ""
	case errors.Is(err, pgguard.ErrForbidden):
		return exit.CodeDenied, "; in psql, as the role that made the guard: SELECT pawl.admit('ROLE'), which gives pawl.claim and the sight of marks"
	case !said:
		return exit.CodeUnavailable, ""
	}
	return exit.CodeOther, ""
}

// guardCodes are the codes of the guards' errors. What a guard refused is told
// in its own words.
var guardCodes = []struct {
	is   error
	code int
}{
	{guard.ErrStale, exit.CodeLost},
	{guard.ErrForeign, exit.CodeOther},
	{guard.ErrMalformed, exit.CodeUsage},
	{guard.ErrMissing, exit.CodeUsage},
	{guard.ErrUnknown, exit.CodeUnavailable},
}

func (db *guarded) failed(err error) error {
	for _, k := range guardCodes {
		if errors.Is(err, k.is) {
			return exit.Failed(k.code, "%s", db.textOf(err))
		}
	}
	code, advice := db.explain(err)
	return exit.Failed(code, "%s%s", db.textOf(err), advice)
}
