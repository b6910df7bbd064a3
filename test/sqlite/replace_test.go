package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// lowering are the statements that would take the mark 8 of x back, give it to
// another cell, or take it away, on the table as it is named in a connection.
func lowering(table string) []string {
	return []string{
		`REPLACE INTO ` + table + ` VALUES ('x', '` + cell + `', 1)`,
		`REPLACE INTO ` + table + ` VALUES ('x', 'another', 1)`,
		`REPLACE INTO ` + table + ` VALUES ('x', 'another', 8)`,
		`REPLACE INTO ` + table + ` VALUES ('x', 'another', 9)`,
		`REPLACE INTO ` + table + ` SELECT resource, cell, token - 1 FROM ` + table,
		`REPLACE INTO ` + table + ` VALUES ('y', '` + cell + `', 3), ('x', '` + cell + `', 7)`,
		`REPLACE INTO ` + table + ` VALUES ('x', '` + cell + `', 8), ('x', '` + cell + `', 7)`,
		`INSERT OR REPLACE INTO ` + table + ` VALUES ('x', '` + cell + `', 7)`,
		`INSERT INTO ` + table + ` VALUES ('x', '` + cell + `', 7)`,
		`INSERT INTO ` + table + ` VALUES ('x', '` + cell + `', 9)`,
		`UPDATE OR REPLACE ` + table + ` SET token = 1`,
		`UPDATE OR REPLACE ` + table + ` SET resource = 'x' WHERE resource = 'z'`,
		`UPDATE OR IGNORE ` + table + ` SET resource = 'w' WHERE resource = 'x'`,
		`INSERT INTO ` + table + ` VALUES ('x', '` + cell + `', 1) ON CONFLICT DO UPDATE SET token = excluded.token`,
		`INSERT INTO ` + table + ` VALUES ('x', 'another', 9) ON CONFLICT (resource) DO UPDATE SET cell = excluded.cell`,
		`DELETE FROM ` + table + ` WHERE resource = 'x'; INSERT INTO ` + table + ` VALUES ('x', '` + cell + `', 1)`,
	}
}

// wantConstraint fails unless SQLite refused the statement.
func wantConstraint(t *testing.T, stmt string, err error) {
	t.Helper()
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != 19 {
		t.Errorf("%s: got %v, want a constraint's error", stmt, err)
	}
}

func (d *database) wantMark(t *testing.T, want guard.State) {
	t.Helper()
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s != want {
		t.Errorf("the mark is %+v, %v, want %+v", s, err, want)
	}
}

// claimed is a database with the mark 8 of x and 5 of z.
func claimed(t *testing.T, path string) *database {
	t.Helper()
	d := open(t, path, wal, wait)
	for _, f := range []guard.Fence{fence("x", 8), fence("z", 5)} {
		if err := d.guard.Claim(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// only is a connection that is used alone, so that what is TEMP stays in sight.
func only(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func exec(t *testing.T, db *sql.DB, stmt string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), stmt); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

// REPLACE fires no trigger for the row that it deletes, and still takes no mark back,
// whatever recursive_triggers says, in this database or through another that attaches
// it.
func TestReplaceCannotLowerMark(t *testing.T) {
	for _, recursive := range []string{"off", "on"} {
		for _, attached := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "guarded.db")
			d := claimed(t, path)
			db, table := only(t, path), "pawl_guard"
			if attached {
				db, table = only(t, filepath.Join(t.TempDir(), "other.db")), "beside.pawl_guard"
				exec(t, db, `ATTACH '`+path+`' AS beside`)
			}
			exec(t, db, `PRAGMA recursive_triggers = `+recursive)
			for _, stmt := range lowering(table) {
				_, err := db.ExecContext(t.Context(), stmt)
				wantConstraint(t, stmt, err)
				d.wantMark(t, guard.State{Cell: cell, Seen: 8})
			}
			wantOnly(t, d.append(t.Context(), fence("x", 7), "late"), guard.ErrStale)
			if err := d.append(t.Context(), fence("x", 8), "a"); err != nil {
				t.Error(err)
			}
		}
	}
}

// What does not lower a mark is not refused.
func TestReplaceMayRaise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guarded.db")
	d := claimed(t, path)
	db := only(t, path)
	exec(t, db, `REPLACE INTO pawl_guard VALUES ('x', '`+cell+`', 8)`)
	exec(t, db, `REPLACE INTO pawl_guard VALUES ('x', '`+cell+`', 9), ('new', 'another', 1)`)
	d.wantMark(t, guard.State{Cell: cell, Seen: 9})
}

// The statement that others write by hand keeps its answer, also when it is committed,
// and what follows is judged by the mark alone.
func TestHandWrittenUpsertKeepsItsAnswer(t *testing.T) {
	d := claimed(t, filepath.Join(t.TempDir(), "guarded.db"))
	const upsert = `INSERT INTO pawl_guard (resource, cell, token) VALUES ('x', ?, ?)
		ON CONFLICT (resource) DO UPDATE SET token = excluded.token
		WHERE pawl_guard.cell = excluded.cell AND pawl_guard.token <= excluded.token RETURNING token`
	for _, step := range []struct {
		cell  string
		token int
		want  error
	}{{cell, 7, sql.ErrNoRows}, {"another", 9, sql.ErrNoRows}, {cell, 8, nil}, {cell, 7, sql.ErrNoRows}, {cell, 9, nil}} {
		var token int
		if err := d.QueryRowContext(t.Context(), upsert, step.cell, step.token).Scan(&token); !errors.Is(err, step.want) {
			t.Errorf("%d of %s: got %v, want %v", step.token, step.cell, err, step.want)
		}
	}
	d.wantMark(t, guard.State{Cell: cell, Seen: 9})
}

// A TEMP table, view or trigger with a name of the guard's is found before it by
// statements that do not say main.
func TestTempTableDoesNotShadowMark(t *testing.T) {
	for what, shadow := range map[string]string{
		"table":        `CREATE TEMP TABLE pawl_guard (resource TEXT PRIMARY KEY, cell TEXT, token INTEGER)`,
		"offset table": `CREATE TEMP TABLE pawl_guard_offset (resource TEXT, key TEXT, seq INTEGER, PRIMARY KEY (resource, key))`,
		"side table":   `CREATE TEMP TABLE pawl_guard_was (resource TEXT PRIMARY KEY, cell TEXT, token INTEGER)`,
		"view":         `CREATE TEMP VIEW pawl_guard AS SELECT 'x' AS resource, '` + cell + `' AS cell, 1 AS token`,
		"triggers": `CREATE TEMP TABLE t (a); CREATE TEMP TRIGGER pawl_guard_keep BEFORE DELETE ON t BEGIN SELECT 1; END;
			CREATE TEMP TRIGGER pawl_guard_replaced BEFORE DELETE ON t BEGIN SELECT 1; END`,
	} {
		t.Run(what, func(t *testing.T) {
			for _, installed := range []bool{true, false} {
				path := filepath.Join(t.TempDir(), "guarded.db")
				db := only(t, path)
				g := sqlguard.New(db, sqlguard.SQLite())
				if installed {
					if err := g.Install(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				exec(t, db, shadow)
				if err := g.Install(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := g.Claim(t.Context(), fence("x", 8)); err != nil {
					t.Fatal(err)
				}
				wantOnly(t, g.Claim(t.Context(), fence("x", 7)), guard.ErrStale)
				err := g.InTx(t.Context(), fence("x", 8), func(tx *sql.Tx) error {
					return g.Offset(t.Context(), tx, fence("x", 8), "p", 0, 4)
				})
				if at, read := g.OffsetOf(t.Context(), "x", "p"); err != nil || at != 4 || read != nil {
					t.Errorf("the offset is %d, %v, %v", at, err, read)
				}
				if err := g.Claim(t.Context(), fence("z", 5)); err != nil {
					t.Fatal(err)
				}
				for _, stmt := range lowering("main.pawl_guard") {
					_, err := db.ExecContext(t.Context(), stmt)
					wantConstraint(t, stmt, err)
				}
				d := open(t, path, wal, wait)
				d.wantMark(t, guard.State{Cell: cell, Seen: 8})
				if at, err := d.guard.OffsetOf(t.Context(), "x", "p"); err != nil || at != 4 {
					t.Errorf("another connection reads the offset %d, %v", at, err)
				}
			}
		})
	}
}

// The guard is main's. Where main has none it is missing, whatever is attached.
func TestAttachedGuardIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guarded.db")
	d := claimed(t, path)
	db := only(t, filepath.Join(t.TempDir(), "other.db"))
	exec(t, db, `ATTACH '`+path+`' AS beside`)
	g := sqlguard.New(db, sqlguard.SQLite())
	wantOnly(t, g.Claim(t.Context(), fence("x", 9)), sqlguard.ErrNotInstalled)
	if err := g.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(t.Context(), fence("x", 9)); err != nil {
		t.Fatal(err)
	}
	d.wantMark(t, guard.State{Cell: cell, Seen: 8})
}

// A database whose guard was made before there was anything against REPLACE gets it with
// the next Install, and keeps its marks.
func TestInstallOverEarlierTriggers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guarded.db")
	d := claimed(t, path)
	for _, stmt := range []string{`DROP TRIGGER pawl_guard_before`, `DROP TRIGGER pawl_guard_replaced`, `DROP TABLE pawl_guard_was`} {
		d.mustExec(t, stmt)
	}
	if err := d.append(t.Context(), fence("x", 8), "a"); err != nil {
		t.Errorf("without them: %v", err)
	}
	if err := d.guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := d.ExecContext(t.Context(), `REPLACE INTO pawl_guard VALUES ('x', '`+cell+`', 1)`)
	wantConstraint(t, "REPLACE", err)
	d.wantMark(t, guard.State{Cell: cell, Seen: 8})
}
