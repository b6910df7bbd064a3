package runner

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/guarddb"
	"github.com/pawlproject/pawl/guard"
)

// DatabasesMax is of how many databases the guards can be claimed for one command.
const DatabasesMax = 8

// claimWait is how long a claim waits for work under lower tokens, as that of "pawl guard
// claim" does where it is not told.
const claimWait = 10 * time.Second

// Database is named by a DSN, which came from a flag, a file or a variable.
type Database struct{ DSN, From string }

// claimed is a guard that is claimed for the command. Its errors hold no password.
type claimed struct {
	db   *guarddb.DB
	from string
}

var _ guard.Seer = claimed{}

// Claim implements guard.Claimer.
func (g claimed) Claim(ctx context.Context, f guard.Fence) error {
	bounded, cancel := context.WithTimeout(ctx, claimWait+client.CallMax)
	defer cancel()
	switch err := g.db.Claim(bounded, f); {
	case err == nil:
		return nil
	case ctx.Err() == nil && bounded.Err() != nil:
		return &claimError{err, exit.Failed(exit.CodeUnavailable, "no answer from the database of %s in time: %s", g.from, g.db.Text(err))}
	default:
		return &claimError{err, g.db.Failed(err)}
	}
}

// Seen implements guard.Seer.
func (g claimed) Seen(ctx context.Context, resource string) (guard.State, error) {
	s, err := g.db.Seen(ctx, resource)
	if err != nil {
		return s, &claimError{err, g.db.Failed(err)}
	}
	return s, nil
}

// claimError is an error of a guard: what it is, and what may be printed of it, with an
// exit code.
type claimError struct{ err, told error }

func (e *claimError) Error() string {
	_, text := exit.Of(e.told)
	return text
}

func (e *claimError) Unwrap() error { return e.err }

// lost says that the lease ended while its guard was claimed.
func (e *claimError) lost() bool {
	return errors.Is(e.err, pawl.ErrLost) || errors.Is(e.err, pawl.ErrBroken)
}

// guards are those that are claimed.
type guards []claimed

// openGuards opens the databases that were named. None of them is asked anything yet.
func (r *running) openGuards() error {
	for _, d := range r.Databases {
		db, err := guarddb.Open(d.DSN, "pawl "+r.verb(), claimWait)
		if errors.Is(err, guarddb.ErrDSN) {
			return exit.Failed(exit.CodeUsage, "%s names no guard that is known here: %v", d.From, err)
		}
		if err != nil {
			return &claimError{err, err}
		}
		r.guards = append(r.guards, claimed{db, d.From})
	}
	return nil
}

func (g guards) claimers() []guard.Claimer {
	all := make([]guard.Claimer, len(g))
	for i := range g {
		all[i] = g[i]
	}
	return all
}

// close closes the databases. Twice is fine.
func (g *guards) close() {
	for _, c := range *g {
		c.db.Close()
	}
	*g = nil
}
