package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// settleScript is the shell script of docs/cli.md, in a folder of its own, and the
// lines that are to be typed before and with it.
func settleScript(t *testing.T) (dir, ddl, run string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "settle"), []byte(block(t, "docs/cli.md", "settle")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(root + "docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```sh\n(pawl guard ddl [^\n]*)\n(pawl run [^\n]*)\n```").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/cli.md does not show how the script is run")
	}
	return dir, string(m[1]), string(m[2])
}

// psqlDatabase is a fresh database, named as psql names one.
func psqlDatabase(t *testing.T, name string) (dsn string) {
	t.Helper()
	_, dsn = postgres(t, name)
	if _, err := exec.LookPath("psql"); err != nil {
		t.Fatal("psql is missing: ", err)
	}
	return strings.Replace(dsn, "database=", "dbname=", 1)
}

// What docs/cli.md tells a shell user does what it says on a real PostgreSQL: the
// work of the holder lands, a late one's does not, and a slot has its own line.
func TestDocumentedShellScript(t *testing.T) {
	dsn := psqlDatabase(t, "settled")
	c := connect(t, dsn)
	must(t, c, "CREATE TABLE accounts (balance bigint); INSERT INTO accounts VALUES (0)")
	dir, ddl, run := settleScript(t)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.up()
	wrapper := s.command(bound)
	if err := os.Symlink(wrapper.Path, filepath.Join(bin, "pawl")); err != nil {
		t.Fatal(err)
	}
	shell := func(script string, more ...string) result {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(append(wrapper.Env[:len(wrapper.Env):len(wrapper.Env)], "PAWL_DSN="+dsn, "PATH="+bin+":"+os.Getenv("PATH")), more...)
		return finish(t, cmd)
	}
	expect(t, shell(ddl), 0)
	balance := func(expected int) {
		t.Helper()
		var n int
		if err := c.QueryRow(t.Context(), "SELECT balance FROM accounts").Scan(&n); err != nil || n != expected {
			t.Errorf("the balance is %d (%v), expected %d", n, err, expected)
		}
	}
	for n := range 2 {
		expect(t, shell(run), 0, "is claimed with token ")
		balance(n + 1)
	}
	cell := read[struct{ Cell string }](t, guardCommand(t, dsn, "seen", "billing", "--json").stdout).Cell
	late := []string{"PAWL_RESOURCE=billing", "PAWL_CELL=" + cell, "PAWL_FENCE=1"}
	expect(t, shell("./settle", late...), 3, "stale")
	// The table is guarded by the bare name: what enters as a slot is another one.
	slotted := strings.Replace(strings.Replace(run, "pawl run billing", "pawl run seats --slots 2", 1), "claim billing", "claim seats", 1)
	expect(t, shell(slotted), 3, "slot 1 of seats")
	balance(2)
	if m := read[struct{ Cell string }](t, guardCommand(t, dsn, "seen", "seats", "--slot", "1", "--json").stdout); m.Cell != cell {
		t.Errorf("the slot's mark is %+v", m)
	}
}

// The README's statement in psql, as the README says that it is written there.
func TestReadmeSQLInPsql(t *testing.T) {
	dsn := psqlDatabase(t, "readme")
	for _, readme := range readmes {
		text, err := os.ReadFile(root + readme)
		if err != nil {
			t.Fatal(err)
		}
		said := regexp.MustCompile("`(:'cell')`[^`]*`(-v cell=[^`]*)`").FindSubmatch(text)
		if said == nil {
			t.Fatalf("%s does not say how psql is told", readme)
		}
		sql := strings.Replace(block(t, readme, "sql"), ":cell", string(said[1]), 1)
		file := filepath.Join(t.TempDir(), "g.sql")
		if err := os.WriteFile(file, []byte(sql+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ fence, mark string }{{"7", "7"}, {"7", "7"}, {"6", ""}} {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "psql -qAt -v ON_ERROR_STOP=1 "+string(said[2])+` -f "$FILE" "$DSN"`)
			cmd.Env = append(os.Environ(), "FILE="+file, "DSN="+dsn, "PAWL_CELL=default-9f86d081884c7d65", "PAWL_FENCE="+step.fence)
			if r := finish(t, cmd); r.code != 0 || strings.TrimSpace(r.stdout) != step.mark {
				t.Errorf("%s: fence %s: %v", readme, step.fence, r)
			}
		}
	}
}
