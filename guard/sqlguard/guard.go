package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/guard"
)

var (
	// ErrBusy: another transaction holds the database. This one did nothing and
	// its token was not judged; repeat it. The error wraps the driver's.
	ErrBusy = errors.New("sqlguard: database busy, nothing was done")
	// ErrNotInstalled: the guard's tables do not exist, see [Guard.Install].
	ErrNotInstalled = errors.New("sqlguard: no guard table in this database")
)

// Guard guards the resources of one database. It holds nothing but the handle
// and may be copied and used by many goroutines.
type Guard struct {
	db      *sql.DB
	dialect Dialect
}

var (
	_ guard.Claimer = Guard{}
	_ guard.Seer    = Guard{}
)

// New returns the guard of db, which it neither opens nor closes.
func New(db *sql.DB, d Dialect) Guard { return Guard{db: db, dialect: d} }

const (
	// installMax is how long Install tries again while the database is busy.
	installMax = 5 * time.Second
	// pauseMin is the pause before the first repeat; it doubles up to
	// pauseMax.
	pauseMin = 5 * time.Millisecond
	pauseMax = 100 * time.Millisecond
)

// Install makes the guard's tables where they are missing. It may be run at
// every start, by many processes at once: while another transaction writes, for
// example another Install, it tries again for up to 5 s, also without a busy timeout.
// Then it fails with [ErrBusy]. A longer busy timeout may make the last try end later.
// When ctx ends while it tries again, the error is that of ctx, and ErrBusy.
func (g Guard) Install(ctx context.Context) error {
	giveUp := time.NewTimer(installMax) //tidy:clock how often Install tries decides nothing
	defer giveUp.Stop()
	pause := pauseMin
	var busy error // of the last try that did nothing
	for {
		err := g.install(ctx)
		switch {
		case errors.Is(err, ErrBusy) && ctx.Err() == nil:
			busy = err
		case busy != nil && err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ended(ctx), busy)
		default:
			return err
		}
		again := time.NewTimer(pause) //tidy:clock a pause between two tries decides nothing
		select {
		case <-again.C:
			pause = min(2*pause, pauseMax)
		case <-giveUp.C:
			again.Stop()
			return busy
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("%w: %w", ended(ctx), busy)
		}
	}
}

func (g Guard) install(ctx context.Context) error {
	for _, stmt := range g.dialect.ddl {
		if _, err := g.db.ExecContext(ctx, stmt); err != nil {
			return g.failed(ctx, "install", err)
		}
	}
	return nil
}

// Claim raises the mark of f.Resource to f in a transaction of its own, see
// [guard.Claimer]. When it returns nil no transaction that entered with a lower
// token is open, and none will commit. It fails with [ErrBusy] while another
// transaction writes longer than the driver waits.
func (g Guard) Claim(ctx context.Context, f guard.Fence) error {
	return g.InTx(ctx, f, func(*sql.Tx) error { return nil })
}

// Seen returns the cell and the highest token that the database has committed
// for a resource, see [guard.Seer]; the zero State when it has seen none.
//
// It returns when ctx ends. A driver that waits for a lock of another transaction does
// not hear of that: the query that was given up keeps a connection for the rest of the
// driver's busy timeout.
func (g Guard) Seen(ctx context.Context, resource string) (guard.State, error) {
	type answer struct {
		state guard.State
		err   error
	}
	told := make(chan answer, 1)
	go func() {
		s, err := g.seen(ctx, g.db, resource)
		told <- answer{s, err}
	}()
	var a answer
	select {
	case a = <-told:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	switch {
	case errors.Is(a.err, sql.ErrNoRows):
		return guard.State{}, nil
	case a.err != nil:
		return guard.State{}, g.failed(ctx, "read the mark", a.err)
	}
	return a.state, nil
}

// querier is what a *sql.DB and a *sql.Tx have in common here.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (g Guard) seen(ctx context.Context, q querier, resource string) (guard.State, error) {
	var cell string
	var token int64
	if err := q.QueryRowContext(ctx, g.dialect.seen, resource).Scan(&cell, &token); err != nil {
		return guard.State{}, err
	}
	return guard.State{Cell: cell, Seen: guard.Token(token)}, nil
}

// failed wraps an error met before any commit: nothing took effect.
func (g Guard) failed(ctx context.Context, doing string, err error) error {
	wrapped := fmt.Errorf("sqlguard: %s: %w", doing, err)
	switch g.dialect.failure(err) {
	case failedBusy:
		wrapped = fmt.Errorf("%w: %s: %w", ErrBusy, doing, err)
	case failedNoTable:
		wrapped = fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	// A context that ends shows as whatever the driver was doing at that moment.
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ended(ctx), wrapped)
	}
	return wrapped
}

// ended returns an error that is both the context's and its cause, such as the
// loss of the lease.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
