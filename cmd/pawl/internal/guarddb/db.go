package guarddb

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard"
)

// ErrDSN: no kind of database that is known here is named so. What the drivers
// say of a name that they cannot read is not passed on: it may hold a password.
var ErrDSN = errors.New(`expected postgres://USER@HOST:PORT/DATABASE, "host=HOST dbname=DATABASE", sqlite:PATH, s3://BUCKET/PREFIX, or http://HOST:PORT or https://HOST:PORT of a guard over HTTP`)

// dsnError is an ErrDSN of a kind that is known, with what that kind expects.
type dsnError struct{ expected error }

func (e dsnError) Error() string        { return e.expected.Error() }
func (e dsnError) Is(target error) bool { return target == ErrDSN }

// marks are the guard of an open database.
type marks interface {
	Seen(ctx context.Context, resource string) (guard.State, error)
	Claim(ctx context.Context, f guard.Fence) error
}

// DB is an open database.
type DB struct {
	marks
	// Close closes it.
	Close func()
	// Text is what may be printed of an error, on one line.
	Text func(err error) string
	// explain finds the exit code of an error of this kind of database, and what
	// to do about it.
	explain func(err error) (code int, advice string)
}

// Open opens the database that a DSN names. A claim waits for work under lower tokens as
// long as wait; PostgreSQL shows the name of the command, as, where the DSN gives none.
// ErrDSN: the DSN names no database; other errors have an exit code.
func Open(dsn, as string, wait time.Duration) (*DB, error) {
	kind, path, _ := strings.Cut(dsn, ":")
	keyword, _, keywords := strings.Cut(dsn, "=")
	switch {
	case kind == "http", kind == "https":
		return openHTTP(dsn, wait)
	case kind == "sqlite" && path != "":
		return openSQLite(path, wait)
	case kind == "s3":
		return openS3(dsn)
	case kind == "postgres", kind == "postgresql", keywords && !strings.ContainsAny(keyword, ":/"):
		return openPostgres(dsn, as, wait)
	}
	return nil, ErrDSN
}

// codes are the codes of the guards' errors. What a guard refused is told
// in its own words.
var codes = []struct {
	is   error
	code int
}{
	{guard.ErrStale, exit.CodeLost},
	{guard.ErrForeign, exit.CodeOther},
	{guard.ErrMalformed, exit.CodeUsage},
	{guard.ErrMissing, exit.CodeUsage},
	{guard.ErrUnknown, exit.CodeUnavailable},
}

// Failed is the error that ends the program for one of the database: the exit code, what
// may be printed, and what to do about it.
func (db *DB) Failed(err error) error {
	for _, k := range codes {
		if errors.Is(err, k.is) {
			return exit.Failed(k.code, "%s", db.Text(err))
		}
	}
	code, advice := db.explain(err)
	return exit.Failed(code, "%s%s", db.Text(err), advice)
}
