package endtoend

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// The README's statement is the guard: it passes what the rule passes, and it
// and sqlguard share one table, made by either.
func TestReadmeSQL(t *testing.T) {
	const cell, other = "default-9f86d081884c7d65", "default-0000000000000000"
	for _, readme := range readmes {
		create, enter, found := strings.Cut(block(t, readme, "sql"), ";\n")
		if !found || !strings.Contains(create, "CREATE TABLE") {
			t.Fatalf("%s does not show a table and then a statement", readme)
		}
		for _, installed := range []bool{false, true} {
			db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "ledger.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			g := sqlguard.New(db, sqlguard.SQLite())
			if installed {
				if err := g.Install(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := db.ExecContext(t.Context(), create); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				cell  string
				fence int64
				want  error
			}{
				{cell, 5, nil},
				{cell, 5, nil},
				{cell, 4, sql.ErrNoRows},
				{cell, 7, nil},
				{other, 9, sql.ErrNoRows},
				{cell, 6, sql.ErrNoRows},
			} {
				var mark int64
				err := db.QueryRowContext(t.Context(), enter, sql.Named("cell", step.cell), sql.Named("fence", step.fence)).Scan(&mark)
				if !errors.Is(err, step.want) || err == nil && mark != step.fence {
					t.Errorf("%s: fence %d of %s: mark %d, %v; expected %v", readme, step.fence, step.cell, mark, err, step.want)
				}
			}
			if err := g.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			fence := guard.Fence{Resource: "orders/7", Token: 6, Cell: cell}
			if err := g.Claim(t.Context(), fence); !errors.Is(err, guard.ErrStale) {
				t.Errorf("sqlguard on that table: a claim of 6 after 7: %v", err)
			}
			fence.Token = 7
			if err := g.Claim(t.Context(), fence); err != nil {
				t.Errorf("sqlguard on that table: a claim of 7 after 7: %v", err)
			}
		}
	}
}
