package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// C82: "0 rows changed" has been read as "not mine"
// where the row held that value already or did not exist.
func TestRowCountIsNotTheVerdict(t *testing.T) {
	d := fresh(t, wal, wait)
	d.mustExec(t, `INSERT INTO list (resource, text) VALUES ('x', 'same')`)
	f := fence("x", 7)
	for _, id := range []int{1, 1, 404} {
		var changed int64
		err := d.guard.InTx(t.Context(), f, func(tx *sql.Tx) error {
			r, err := tx.Exec(`UPDATE list SET text = 'same' WHERE id = ?`, id)
			if err != nil {
				return err
			}
			changed, err = r.RowsAffected()
			return err
		})
		if err != nil {
			t.Errorf("row %d: %v", id, err)
		}
		if (id == 404) != (changed == 0) {
			t.Errorf("row %d: %d rows changed", id, changed)
		}
	}
}

func TestMissingTableIsItsOwnError(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "bare.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g := sqlguard.New(db, sqlguard.SQLite())
	wantOnly(t, g.Claim(t.Context(), fence("x", 7)), sqlguard.ErrNotInstalled)
	_, err = g.Seen(t.Context(), "x")
	wantOnly(t, err, sqlguard.ErrNotInstalled)
	_, err = g.OffsetOf(t.Context(), "x", "p")
	wantOnly(t, err, sqlguard.ErrNotInstalled)
}

// Where somebody else's trigger swallows the guard's row, the answer is an error and no
// verdict.
func TestIgnoredMark(t *testing.T) {
	for _, event := range []string{"INSERT", "UPDATE"} {
		d := fresh(t, wal, wait)
		if event == "UPDATE" {
			if err := d.guard.Claim(t.Context(), fence("x", 6)); err != nil {
				t.Fatal(err)
			}
		}
		d.mustExec(t, `CREATE TRIGGER foreign_hand BEFORE `+event+` ON pawl_guard BEGIN SELECT RAISE(IGNORE); END`)
		err := d.append(t.Context(), fence("x", 7), "a")
		if err == nil {
			t.Errorf("%s: an operation passed a guard that keeps nothing", event)
		}
		wantNone(t, err)
		d.wantList(t, "x")
	}
}

func TestMarksOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guarded.db")
	d := open(t, path, wal, wait)
	if err := d.guard.Claim(t.Context(), fence("x", 8)); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d = open(t, path, rollback, wait)
	wantOnly(t, d.append(t.Context(), fence("x", 7), "late"), guard.ErrStale)
	other := fence("x", 9)
	other.Cell = "test-00000000000000bb"
	wantOnly(t, d.append(t.Context(), other, "foreign"), guard.ErrForeign)
	if err := d.append(t.Context(), fence("x", 8), "a"); err != nil {
		t.Error(err)
	}
}

// Deleting or lowering a mark by hand opens the door to an old holder, so it takes more
// than a statement.
func TestTableKeepsItself(t *testing.T) {
	d := fresh(t, wal, wait)
	if err := d.guard.Claim(t.Context(), fence("x", 8)); err != nil {
		t.Fatal(err)
	}
	for _, stmt := range []string{
		`DELETE FROM pawl_guard`,
		`UPDATE pawl_guard SET token = 7`,
		`UPDATE pawl_guard SET cell = 'test-00000000000000bb'`,
		`UPDATE pawl_guard SET resource = 'y'`,
		`INSERT INTO pawl_guard VALUES ('y', 'c', 0)`,
		`INSERT INTO pawl_guard VALUES ('y', 'c', 9007199254740992)`,
		`INSERT INTO pawl_guard VALUES ('y', 'c', 1.5)`,
		`INSERT INTO pawl_guard VALUES ('y', 'c', 'many')`,
		`INSERT INTO pawl_guard VALUES ('y', '', 7)`,
	} {
		_, err := d.ExecContext(t.Context(), stmt)
		if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != 19 {
			t.Errorf("%s: %v", stmt, err)
		}
	}
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s != (guard.State{Cell: cell, Seen: 8}) {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

func TestInstallAnyTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guarded.db")
	d := open(t, path, wal, wait)
	if err := d.guard.Claim(t.Context(), fence("x", 8)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := d.guard.Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantOnly(t, d.guard.Claim(t.Context(), fence("x", 7)), guard.ErrStale)

	if !strings.Contains(strings.Join(sqlguard.SQLite().DDL(), ";"), "pawl_guard_keep") {
		t.Error("DDL and Install differ")
	}
}

// Many that start together on a new file, without a busy timeout, all succeed.
func TestInstallBySeveralAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guarded.db")
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		db, err := sql.Open("sqlite", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		wg.Go(func() {
			<-begin
			if err := sqlguard.New(db, sqlguard.SQLite()).Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	wg.Wait()
}

// Install does not outlast its context while another transaction writes.
func TestContextEndsInstall(t *testing.T) {
	d := fresh(t, wal, atOnce)
	d.mustExec(t, `DROP TRIGGER pawl_guard_keep`)
	writing := d.begin(t, fence("x", 7))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := d.guard.Install(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sqlguard.ErrBusy) {
		t.Errorf("Install while another one writes: %v", err)
	}
	if err := writing.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := d.guard.Install(t.Context()); err != nil {
		t.Error(err)
	}
}
