package guarddb

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver behind sqlguard

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

func openSQLite(path string, wait time.Duration) (*DB, error) {
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
		return nil, ErrDSN
	}
	return &DB{
		marks: sqlguard.New(db, sqlguard.SQLite()), Close: func() { _ = db.Close() },
		Text: pgdsn.OneLine, explain: explainSQLite,
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
