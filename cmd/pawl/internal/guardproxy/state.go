package guardproxy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver of the state file

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// ErrState: the state file cannot be used.
var ErrState = errors.New("the state file cannot be used")

// stateMax bounds the opening and the closing of the state file.
const stateMax = 10 * time.Second

// lockTries bounds how often a signal may interrupt the locking.
const lockTries = 100

// state keeps marks in a SQLite file, which it holds for itself alone: another program could
// raise a mark beside the proxy, and another proxy would not wait for this one's requests.
type state struct {
	sqlguard.Guard
	db *sql.DB
	// lock is a file beside it that is locked as long as the proxy runs. SQLite's own lock
	// does not do: it goes with the connection, which database/sql replaces after a question
	// that was given up, as when the caller of SeenPath goes away.
	lock *os.File
}

// lockSuffix follows the name of the state file in that of its lock. The file stays: a proxy
// that removed it could leave two behind it with a lock each.
const lockSuffix = "-lock"

// locked makes and locks the file beside the state file.
func locked(path string) (*os.File, error) {
	f, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for range lockTries {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another proxy uses it: %w", err)
	}
	return nil, fmt.Errorf("lock %s: %w", path+lockSuffix, err)
}

var _ httpguard.Drains = (*state)(nil)

// openState opens the file, and makes it where it is missing. It reports whether an earlier
// proxy used it and did not stop cleanly.
func openState(ctx context.Context, path string) (s *state, crashed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stateMax)
	defer cancel()
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrState, err)
	}
	if real, err := filepath.EvalSymlinks(full); err == nil {
		full = real // one lock, whatever name leads to the file
	}
	lock, err := locked(full)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %s: %w", ErrState, path, err)
	}
	dsn := url.URL{Scheme: "file", Path: full, RawQuery: "_pragma=locking_mode(EXCLUSIVE)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		_ = lock.Close() // the error is told
		return nil, false, fmt.Errorf("%w: %w", ErrState, err)
	}
	// The lock is a connection's. A second one would be shut out by the first.
	db.SetMaxOpenConns(1)
	s = &state{sqlguard.New(db, sqlguard.SQLite()), db, lock}
	if crashed, err = s.begin(ctx); err != nil {
		_ = db.Close()
		_ = lock.Close()
		return nil, false, fmt.Errorf("%w: %s: %w", ErrState, path, err)
	}
	return s, crashed, nil
}

// begin makes the tables and notes that a proxy uses the file. In steps:
//
//  1. Clean is 0 as long as a proxy runs, also when it is killed.
//  2. One that stops sets it to 1 once nothing of its requests is in flight.
//  3. The next one reads it, and sets it to 0 in the same transaction.
func (s *state) begin(ctx context.Context) (crashed bool, err error) {
	if err := s.Install(ctx); err != nil {
		if errors.Is(err, sqlguard.ErrBusy) {
			return false, fmt.Errorf("another proxy, or another program, uses it: %w", err)
		}
		return false, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	for _, q := range []string{
		`CREATE TABLE IF NOT EXISTS pawl_guard_admitted (
	resource TEXT NOT NULL PRIMARY KEY,
	token    INTEGER NOT NULL
) WITHOUT ROWID`,
		`CREATE TABLE IF NOT EXISTS pawl_guard_proxy (
	one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	clean INTEGER NOT NULL
) WITHOUT ROWID`,
		`INSERT INTO pawl_guard_proxy (one, clean) VALUES (1, 1) ON CONFLICT (one) DO NOTHING`,
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return false, err
		}
	}
	clean := false
	if err := tx.QueryRowContext(ctx, `SELECT clean FROM pawl_guard_proxy`).Scan(&clean); err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE pawl_guard_proxy SET clean = 0`); err != nil {
		return false, err
	}
	return !clean, tx.Commit()
}

// Admit implements httpguard.Drains.
func (s *state) Admit(ctx context.Context, f guard.Fence) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO pawl_guard_admitted (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token`, f.Resource, int64(f.Token))
	if err != nil {
		return fmt.Errorf("keep the token that is let in: %w", err)
	}
	return nil
}

// Admitted implements httpguard.Drains.
func (s *state) Admitted(ctx context.Context, resource string) (guard.Token, error) {
	var token int64
	err := s.db.QueryRowContext(ctx, `SELECT token FROM pawl_guard_admitted WHERE resource = ?`, resource).Scan(&token)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read the token that was let in: %w", err)
	}
	return guard.Token(token), nil
}

// close closes the file, and notes first whether nothing is in flight any more.
func (s *state) close(clean bool) error {
	defer s.lock.Close() // after the database
	defer s.db.Close()
	if !clean {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateMax)
	defer cancel()
	if _, err := s.db.ExecContext(ctx, `UPDATE pawl_guard_proxy SET clean = 1`); err != nil {
		return fmt.Errorf("note the clean stop: %w", err)
	}
	return nil
}
