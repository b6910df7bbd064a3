package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

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

// wantOnly fails unless err is want and none of the verdicts or ErrUnknown.
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
		guard.ErrStale, guard.ErrForeign, guard.ErrMissing, guard.ErrMalformed, guard.ErrOutOfTurn,
		guard.ErrUnknown, sqlguard.ErrBusy, sqlguard.ErrNotInstalled,
	} {
		if errors.Is(err, other) && !slices.Contains(expected, other) {
			t.Errorf("%v is %v", err, other)
		}
	}
}

// begin opens a transaction that has entered under f.
func (d *database) begin(t *testing.T, f guard.Fence) *sql.Tx {
	t.Helper()
	tx, err := d.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if err := d.guard.Enter(t.Context(), tx, f); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestBusyIsNotStale(t *testing.T) {
	for _, journal := range []string{wal, rollback} {
		t.Run(journal, func(t *testing.T) {
			d := fresh(t, journal, atOnce)
			old := d.begin(t, fence("x", 7))

			err := d.guard.Claim(t.Context(), fence("x", 8))
			wantOnly(t, err, sqlguard.ErrBusy)
			if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != 5 {
				t.Errorf("%v does not hold the driver's error", err)
			}
			if err := old.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := d.guard.Claim(t.Context(), fence("x", 8)); err != nil {
				t.Errorf("when the old transaction has ended: %v", err)
			}
		})
	}
}

// The busy timeout is longer than any test run.
func TestContextEndsTheWait(t *testing.T) {
	d := fresh(t, wal, "86400000")
	old := d.begin(t, fence("x", 7))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantOnly(t, d.guard.Claim(ctx, fence("x", 8)), context.DeadlineExceeded)
	if err := old.Commit(); err != nil {
		t.Fatal(err)
	}
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 7 {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

// With the rollback journal a commit needs all readers gone. Refused there it has done
// nothing, and the connection must not keep the open transaction.
func TestReaderHoldsUpCommit(t *testing.T) {
	d := fresh(t, rollback, atOnce)
	f := fence("x", 7)
	for _, text := range []string{"a", "b"} {
		if err := d.append(t.Context(), f, text); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := d.QueryContext(t.Context(), `SELECT text FROM list`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("nothing to read")
	}

	wantOnly(t, d.append(t.Context(), f, "c"), sqlguard.ErrBusy)
	rows.Close()
	d.wantList(t, "x", "a", "b")
	if err := d.append(t.Context(), f, "c"); err != nil {
		t.Fatal(err)
	}
	d.wantList(t, "x", "a", "b", "c")
}

// A deferred constraint speaks at the commit, and says so for certain.
func TestCheckAtCommit(t *testing.T) {
	d := fresh(t, wal, wait)
	d.mustExec(t, `CREATE TABLE child (parent INTEGER REFERENCES list (id) DEFERRABLE INITIALLY DEFERRED)`)
	err := d.guard.InTx(t.Context(), fence("x", 7), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO child VALUES (404)`)
		return err
	})
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != 19 {
		t.Errorf("got %v, want the constraint", err)
	}
	wantNone(t, err)
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 0 {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

// A context that ends while the commit is under way does not make a known outcome
// unknown.
func TestCommitIsNotInterrupted(t *testing.T) {
	d := fresh(t, wal, wait)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.wire.atCommit(func(tx driver.Tx) error {
		cancel()
		return tx.Commit()
	})
	if err := d.append(ctx, fence("x", 7), "a"); err != nil {
		t.Error(err)
	}
	d.wantList(t, "x", "a")
}

// A transaction that has read before it enters cannot get the write lock once another
// has committed. It fails closed.
func TestReadBeforeEnter(t *testing.T) {
	d := fresh(t, wal, wait)
	tx, err := d.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM list`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := d.append(t.Context(), fence("x", 7), "a"); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, d.guard.Enter(t.Context(), tx, fence("x", 8)), sqlguard.ErrBusy)
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("commit after a failed Enter: %v", err)
	}
}

// A caller that ignores the error cannot commit all the same.
func TestRefusedEnterEndsTheTransaction(t *testing.T) {
	d := fresh(t, wal, wait)
	if err := d.guard.Claim(t.Context(), fence("x", 8)); err != nil {
		t.Fatal(err)
	}
	tx, err := d.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantOnly(t, d.guard.Enter(t.Context(), tx, fence("x", 7)), guard.ErrStale)
	if err := add(t.Context(), tx, "x", "late"); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("writing after a refusal: %v", err)
	}
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("committing after a refusal: %v", err)
	}
	d.wantList(t, "x")
}

// A driver may fail a commit and leave its connection inside the transaction, with
// SQLite's write lock.
func TestConnectionWithOpenTransactionIsDropped(t *testing.T) {
	d := fresh(t, wal, atOnce)
	d.wire.atCommit(func(driver.Tx) error { return errLost })
	wantOnly(t, d.append(t.Context(), fence("x", 7), "a"), guard.ErrUnknown)
	if err := d.append(t.Context(), fence("x", 1), "b"); err != nil {
		t.Error(err)
	}
	d.wantList(t, "x", "b")
}

// A driver may fail a rollback, too. What was refused must not land with the next
// transaction of that connection, nor hold the write lock.
func TestConnectionWithFailedRollbackIsDropped(t *testing.T) {
	d := fresh(t, wal, atOnce)
	d.SetMaxOpenConns(1)
	given := errors.New("changed my mind")
	err := d.guard.InTx(t.Context(), fence("x", 7), func(tx *sql.Tx) error {
		d.wire.failRollback.Store(true)
		return errors.Join(add(t.Context(), tx, "x", "a"), given)
	})
	wantOnly(t, err, given)
	if err := d.append(t.Context(), fence("x", 1), "b"); err != nil {
		t.Error(err)
	}
	d.wantList(t, "x", "b")
}

// The mark and the offset that refuse may be the transaction's own, which nobody else
// sees yet; and there may be no other connection to ask by.
func TestRefusalReportsTransactionsView(t *testing.T) {
	d := fresh(t, wal, wait)
	wantOnly(t, d.guard.InTx(t.Context(), fence("x", 8), func(tx *sql.Tx) error {
		return d.guard.Enter(t.Context(), tx, fence("x", 7))
	}), guard.ErrStale)
	wantOnly(t, d.guard.InTx(t.Context(), fence("x", 8), func(tx *sql.Tx) error {
		if err := d.guard.Offset(t.Context(), tx, fence("x", 8), "p", 0, 1); err != nil {
			return err
		}
		return d.guard.Offset(t.Context(), tx, fence("x", 8), "p", 0, 1)
	}), guard.ErrOutOfTurn)
}
