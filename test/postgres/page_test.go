//go:build unix

package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard"
)

// page is the guide to this guard.
const page = "../../docs/guards-postgres.md"

// leftOut is what the guide leaves out of statements, written "…", as far as it does
// not matter there.
var leftOut = map[string]string{
	"BEGIN; SELECT pawl.enter(…); …; COMMIT":           "BEGIN; SELECT pawl.enter('orders/7', :'cell', :fence); UPDATE orders SET paid = true; COMMIT",
	"SELECT pawl.move_offset(…)":                       "SELECT pawl.move_offset('orders/7', :'cell', :fence, 'p', 0, 1)",
	"UPDATE … WHERE id = 7 AND (SELECT pawl.held(…))":  "SELECT pawl.claim('orders/7', :'cell', :fence); UPDATE orders SET paid = true WHERE id = 7 AND (SELECT pawl.held('orders/7', :'cell', :fence))",
	"INSERT … ON CONFLICT DO NOTHING":                  "INSERT INTO orders VALUES (7) ON CONFLICT DO NOTHING",
	"INSERT … ON CONFLICT DO UPDATE … WHERE token < …": "INSERT INTO naive AS n VALUES ('x', 5) ON CONFLICT (resource) DO UPDATE SET token = 5 WHERE n.token < 5",
}

// pageSQL are the statements of the guide: its blocks, and what stands within the
// lines.
func pageSQL(t *testing.T) (blocks, lines []string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	fenced := regexp.MustCompile("(?s)\n```(\\w*)\n(.*?)\n```\n")
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		if block[1] == "sql" {
			blocks = append(blocks, block[2])
		}
	}
	prose := fenced.ReplaceAllString(text, "\n")
	for _, span := range regexp.MustCompile("`((?:BEGIN|SELECT|INSERT|UPDATE|DELETE|WITH)[ ;][^`]*)`").FindAllStringSubmatch(prose, -1) {
		sql := span[1]
		if strings.Contains(sql, "…") {
			full, known := leftOut[sql]
			if !known {
				t.Errorf("the page shortens %q: leftOut must say what it stands for", sql)
			}
			sql = full
		}
		if !slices.Contains(lines, sql) {
			lines = append(lines, sql)
		}
	}
	return blocks, lines
}

// psql runs SQL as the guide has it run, under a fence.
func (d *database) psql(t *testing.T, f guard.Fence, sql string) {
	t.Helper()
	program := filepath.Join(server.Bin, "psql")
	if _, err := os.Stat(program); err != nil {
		program = "psql"
	}
	cmd := exec.CommandContext(t.Context(), program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "cell="+f.Cell, "-v", "fence="+f.Token.String(),
		strings.Replace(d.dsn, "database=", "dbname=", 1))
	cmd.Stdin = strings.NewReader(sql)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%v: %s", sql, err, out)
	}
}

// Every statement of the guide runs as it stands there, and its blocks do what they are
// there for, also where the database's own level is a stricter one.
func TestDocumentedSQL(t *testing.T) {
	blocks, lines := pageSQL(t)
	if len(blocks) < 2 || len(lines) < 8 {
		t.Fatalf("the page has %q and %q", blocks, lines)
	}
	old := fence("orders/7", 40)
	prepare := func(level string) *database {
		d := fresh(t)
		d.asRole(t, "writer")
		d.mustExec(t, `alter database `+d.Config().ConnConfig.Database+` set default_transaction_isolation = '`+level+`'`)
		d.mustExec(t, `create table orders (id int primary key, paid boolean); insert into orders values (7);
				create table ledger (note text); insert into ledger values (null); create table naive (resource text primary key, token bigint)`)
		d.mustExec(t, `select pawl.enforce('ledger', 'ledger')`)
		d.Reset() // to the level
		d.mustClaim(t, old)
		return d
	}
	for _, sql := range lines {
		prepare("read committed").psql(t, fence("orders/7", 42), sql+";\n")
	}
	for _, level := range []string{"read committed", "serializable"} {
		for _, sql := range blocks {
			d := prepare(level)
			now := old
			if strings.Contains(sql, "pawl.guard ") {
				now = guard.Fence{Resource: "orders/7", Cell: "another's", Token: 7}
			}
			d.psql(t, now, sql)
			// Whatever it did, the guard is on again.
			s := d.session(t)
			s.refused("FE002", `insert into ledger values ('late')`)
			s.refused("23514", `delete from pawl.guard`)
			d.mustClaim(t, now)
			if now.Cell != old.Cell {
				wantOnly(t, d.guard.Claim(t.Context(), old), guard.ErrForeign)
			} else if n := d.count(t, `select count(*) from ledger where note = 'none'`); n != 1 {
				t.Errorf("%d rows have a note after\n%s", n, sql)
			}
		}
	}
}
