//go:build unix

package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
)

// The database's default is a stricter level, of which the guard is not told. A
// transaction is still inside the guard or refused, raises the mark without a claim,
// and blocks the next claim until it ends.
func TestDatabasesOwnLevel(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		setup := fresh(t)
		d := open(t, setup.dsn, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
		})
		for range 2 { // raises, and is under
			err := d.guard.InTx(t.Context(), fence("x", 5), func(tx pgx.Tx) error {
				var is string
				if err := tx.QueryRow(t.Context(), `show transaction_isolation`).Scan(&is); err != nil || is != level {
					t.Errorf("the level is %q, %v", is, err)
				}
				var got bool
				err := setup.QueryRow(t.Context(), `select pg_try_advisory_xact_lock(pawl.lock_key('x'))`).Scan(&got)
				if got {
					t.Errorf("%s: nothing holds the next claim up", level)
				}
				if err != nil {
					return err
				}
				// A snapshot that is older than the lock is made up for by locking the row.
				free, err := setup.Exec(t.Context(), `select from pawl.guard where resource = 'x' for update skip locked`)
				if free.RowsAffected() > 0 {
					t.Errorf("%s: entered by an old snapshot alone", level)
				}
				return errors.Join(err, add(t.Context(), tx, "x", "5"))
			})
			if err != nil {
				t.Fatalf("%s: %v", level, err)
			}
		}
		setup.mustClaim(t, fence("x", 6))
		if err := d.append(t.Context(), fence("x", 5), "late"); !errors.Is(err, guard.ErrStale) {
			t.Errorf("%s: the old token is told %v", level, err)
		}
	}
}

// The snapshot that shows the mark to reenter is younger than its lock. A raise that is under way when the transaction begins, and
// commits before the lock is taken, refuses it.
func TestReenterReadsMarkAfterLock(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("x", 5))
	raiser, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.guard.Enter(t.Context(), raiser, fence("x", 6)); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() { told <- d.append(t.Context(), fence("x", 5), "late") }()
	d.waiters(t, 1)
	if err := raiser.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, guard.ErrStale) {
		t.Errorf("the old token is told %v", err)
	}
}

// A resource outside of ASCII is the same one whatever encoding the connection speaks.
func TestClientEncoding(t *testing.T) {
	setup := fresh(t)
	latin := open(t, setup.dsn, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1" })
	for range 2 {
		if err := latin.append(t.Context(), fence("é", 5), "5"); err != nil {
			t.Fatal(err)
		}
	}
	// This is how the bytes of é read in that encoding.
	setup.mustClaim(t, fence("Ã©", 5))
	setup.mustClaim(t, fence("é", 6))
	if err := latin.append(t.Context(), fence("é", 5), "late"); !errors.Is(err, guard.ErrStale) {
		t.Errorf("the old token is told %v", err)
	}
}
