package pgguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlproject/pawl/guard"
)

// SQLSTATEs of the guard's functions and triggers, for those who meet them in a
// *pgconn.PgError of a statement of their own.
const (
	CodeStale         = "FE001" // the resource has seen a higher token
	CodeMissing       = "FE002" // written without a fence
	CodeOtherTx       = "FE003" // written with the fence of another transaction
	CodeOtherResource = "FE004" // written with the fence of another resource
	CodeUnclaimed     = "FE005" // the mark must be raised by a claim first
	CodeForeign       = "FE006" // the token of another cell
	CodeMalformed     = "FE007" // this cannot be a fence
	CodeOutOfTurn     = "FE008" // an offset that is not the next one
)

var (
	// ErrBusy says that another transaction blocks this one. This one did nothing, and
	// its token was not checked; repeat it. The error wraps the database's:
	// lock_not_available (55P03), serialization_failure (40001) or deadlock_detected
	// (40P01).
	ErrBusy = errors.New("pgguard: another transaction is in the way, nothing was done")
	// ErrNotInstalled: the guard's tables and functions do not exist, or not all
	// that this version has, see [Guard.Install].
	ErrNotInstalled = errors.New("pgguard: no guard in this database, or an older one than this")
	// ErrUnclaimed: under REPEATABLE READ or SERIALIZABLE a transaction that has
	// written cannot raise a mark any more; [Guard.Claim] before it. Nothing was
	// done.
	ErrUnclaimed = errors.New("pgguard: claim before this transaction")
	// ErrForbidden: the role lacks rights, see [Guard.Grant] and [Guard.Install].
	// Nothing was done.
	ErrForbidden = errors.New("pgguard: the database refuses the role")
)

// SQLSTATEs of PostgreSQL, and one that nobody sees.
const (
	codeLockNotAvailable     = "55P03"
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeForbidden            = "42501"
	codeNoSchema             = "3F000"
	codeNoFunction           = "42883"
	codeNoTable              = "42P01"
	codeEnter                = "FE009" // of reenter
)

// code is the SQLSTATE of err; "" when it is not the database's.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// failed wraps an error met before any commit: nothing took effect.
func failed(ctx context.Context, doing string, err error) error {
	wrapped := fmt.Errorf("pgguard: %s: %w", doing, err)
	switch code(err) {
	case codeLockNotAvailable, codeSerializationFailure, codeDeadlock:
		wrapped = fmt.Errorf("%w: %s: %w", ErrBusy, doing, err)
	case codeNoSchema, codeNoFunction, codeNoTable:
		wrapped = fmt.Errorf("%w: %s: %w", ErrNotInstalled, doing, err)
	case codeForbidden:
		wrapped = fmt.Errorf("%w: %s: %w%s", ErrForbidden, doing, err, admission(err))
	case CodeUnclaimed:
		wrapped = fmt.Errorf("%w: %s: %w", ErrUnclaimed, doing, err)
	}
	// A context that ends shows as whatever the driver was doing at that moment.
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ended(ctx), wrapped)
	}
	return wrapped
}

// admission says which rights a role lacks that may not use all of the guard. It gives
// no advice to a role that may not connect, or that was refused within one of the
// guard's functions, which names the right itself.
func admission(err error) string {
	e, said := errors.AsType[*pgconn.PgError](err)
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	if unconnected || said && e.Where != "" {
		return ""
	}
	return "; pawl.admit (Guard.Grant) lets a role in, and again after an upgrade of the guard"
}

// refused turns what a function of the guard raised about f and m into the
// guard's error, and everything else into failed's.
func (g Guard) refused(ctx context.Context, doing string, f guard.Fence, m guard.Mark, err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return failed(ctx, doing, err)
	}
	s := guard.State{Cell: f.Cell, Seen: f.Token}
	v := guard.Malformed
	switch e.Code {
	case CodeStale, CodeForeign:
		v = guard.Stale
		if e.Code == CodeForeign {
			v = guard.Foreign
		}
		seen, found := strings.CutPrefix(e.Detail, "seen ")
		token, cell, both := strings.Cut(seen, " of cell ")
		t, err := guard.ParseToken(token)
		if !found || !both || err != nil {
			return failed(ctx, doing+": refused in words unknown here", e)
		}
		s.Seen, s.Cell = t, cell
	case CodeOutOfTurn:
		at, err := strconv.ParseUint(strings.TrimPrefix(e.Detail, "at "), 10, 63)
		if err != nil {
			return failed(ctx, doing+": refused in words unknown here", e)
		}
		s.Seq = at
		if _, v = guard.Decide(guard.Exact, s, m); v.Err(f.Resource, s, m) == nil {
			return failed(ctx, doing, e)
		}
	case CodeMissing:
		v = guard.Missing
	case CodeMalformed:
	default:
		return failed(ctx, doing, err)
	}
	return v.Err(f.Resource, s, m)
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
