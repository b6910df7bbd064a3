package endtoend

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testpostgres"
	"github.com/pawlproject/pawl/internal/testwait"
)

// cluster is PostgreSQL, started by the first test that needs it.
var cluster = sync.OnceValues(func() (*testpostgres.Server, error) {
	s, err := testpostgres.Start(testpostgres.Options{})
	if err == nil {
		stopCluster = s.Stop
	}
	return s, err
})

// stopCluster ends it and removes its folder.
var stopCluster = func() error { return nil }

// postgres returns the DSN of a fresh database, which is dropped with the test.
func postgres(t *testing.T, name string) (*testpostgres.Server, string) {
	t.Helper()
	wholly(t)
	s, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := createDatabase(t.Context(), s, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), s.DSN("postgres"))
		if err == nil {
			_, err = c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
			_ = c.Close(context.Background()) // nothing is under way
		}
		if err != nil {
			t.Error(err)
		}
	})
	return s, dsn
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // it may be closed
	return c
}

func must(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%v in\n%.300s", err, sql)
	}
}

// guardCommand is "pawl guard" with the database in its environment.
func guardCommand(t *testing.T, dsn string, args ...string) result {
	t.Helper()
	cmd := pawlCommand(t, bound, append([]string{"guard"}, args...)...)
	cmd.Env = append(cmd.Env, "PAWL_DSN="+dsn)
	return finish(t, cmd)
}

func claimAt(t *testing.T, dsn, resource, token string, more ...string) result {
	t.Helper()
	return guardCommand(t, dsn, append([]string{"claim", resource, "--token", token, "--cell", "c"}, more...)...)
}

func expect(t *testing.T, r result, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("expected code %d: %v", code, r)
	}
	for _, p := range parts {
		if !strings.Contains(r.stdout+r.stderr, p) {
			t.Errorf("%q is missing: %v", p, r)
		}
	}
}

// The printed migration makes a guard, twice over; a claim raises its mark, a
// lower token and another cell's are refused, each with its code.
func TestGuardOnPostgres(t *testing.T) {
	_, dsn := postgres(t, "guarded")
	expect(t, guardCommand(t, dsn, "seen", "orders/7"), 65, "no guard", "pawl guard ddl --dialect postgres")
	expect(t, claimAt(t, dsn, "orders/7", "7"), 65, "no guard")

	c := connect(t, dsn)
	must(t, c, `CREATE TABLE accounts (n bigint); CREATE TABLE "Odd ""Orders" (id text, n bigint);
		DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN; DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN;
		GRANT ALL ON accounts TO writer`)
	ddl := finish(t, pawlCommand(t, bound, "guard", "ddl", "--dialect", "postgres", "--grant", "writer",
		"--enforce", "accounts=it's \\ billing\x1f3", "--enforce-rows", `"Odd ""Orders"=id:orders/`))
	if ddl.code != 0 || ddl.stderr != "" {
		t.Fatal(ddl)
	}
	for range 2 {
		must(t, c, ddl.stdout)
	}

	expect(t, guardCommand(t, dsn, "seen", "orders/7"), 0, "has seen no token yet")
	expect(t, claimAt(t, dsn, "orders/7", "7"), 0, "token 7")
	expect(t, claimAt(t, dsn, "orders/7", "6"), 70, "stale", "seen 7")
	expect(t, guardCommand(t, dsn, "claim", "orders/7", "--token", "9", "--cell", "d"), 1, "another cell")
	expect(t, guardCommand(t, dsn, "seen", "orders/7", "--json"), 0, `{"resource":"orders/7","fencing_token":"7","cell":"c"}`)
	as := func(role string) string { return strings.Replace(dsn, "user=postgres", "user="+role, 1) }
	expect(t, claimAt(t, as("writer"), "orders/7", "8"), 0)
	expect(t, guardCommand(t, as("stranger"), "seen", "orders/7"), 77, "refuses the role", "SELECT pawl.admit('ROLE')")
	must(t, c, `REVOKE ALL ON FUNCTION pawl.claim FROM writer`) // as it is after an upgrade that brings it
	expect(t, claimAt(t, as("writer"), "orders/7", "8"), 77, "permission denied for function claim",
		"SELECT pawl.admit('ROLE')", "pawl.claim", "again after an upgrade")
	must(t, c, `SELECT pawl.admit('writer')`)
	expect(t, claimAt(t, as("writer"), "orders/7", "8"), 0)
	expect(t, guardCommand(t, as("nobody"), "seen", "orders/7"), 77)
	expect(t, guardCommand(t, strings.Replace(dsn, "database=guarded", "database=none", 1), "seen", "orders/7"), 69, "does not exist")

	// Who writes the tables without the guard is refused, whatever wrote the SQL.
	w := connect(t, as("writer"))
	refused := func(sql, code string) {
		t.Helper()
		var e *pgconn.PgError
		if _, err := w.Exec(t.Context(), sql); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v; %s was expected", sql, err, code)
		}
	}
	refused("INSERT INTO accounts VALUES (1)", pgguard.CodeMissing)
	refused("BEGIN; SELECT pawl.enter('other', 'c', 1); INSERT INTO accounts VALUES (1); COMMIT", pgguard.CodeOtherResource)
	must(t, w, `ROLLBACK; BEGIN; SELECT pawl.enter(E'it''s \\ billing\u001f3', 'c', 1); INSERT INTO accounts VALUES (1); COMMIT`)
	must(t, c, `BEGIN; SELECT pawl.enter('orders/1', 'c', 1); INSERT INTO "Odd ""Orders" VALUES ('1', 1); COMMIT`)
}

// A claim waits for open work under a lower token, no longer than it is told,
// and says whose it is.
func TestGuardClaimNamesBlockingHolder(t *testing.T) {
	_, dsn := postgres(t, "busy")
	c := connect(t, dsn+" application_name=old-holder")
	must(t, c, pgguard.DDL())
	must(t, c, "BEGIN; SELECT pawl.enter('r', 'c', 5)")
	expect(t, claimAt(t, dsn, "r", "6", "--wait", "100ms"), 75, "in the way is process", "token 5", "old-holder")
	expect(t, claimAt(t, dsn, "r", "6", "--wait", "0s"), 75)
	cmd := pawlCommand(t, bound, "guard", "claim", "r", "--token", "6", "--cell", "c", "--wait", "50s")
	cmd.Env = append(cmd.Env, "PAWL_DSN="+dsn)
	waiting := begin(t, cmd)
	see := connect(t, dsn)
	testwait.Until(t, bound, "the claim waits", func() (waits bool) {
		err := see.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&waits)
		return err == nil && waits
	})
	must(t, c, "COMMIT")
	expect(t, waiting.end(), 0, "token 6")
}

// A wrong password is refused, and never shown; the right one may come from the
// DSN, from the environment or from a file of passwords.
func TestGuardByPassword(t *testing.T) {
	const right, wrong = "s3cr3t/w:rd", "hush-hush"
	server, dsn := postgres(t, "locked")
	c := connect(t, dsn)
	must(t, c, pgguard.DDL()+`DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN PASSWORD '`+right+`';
		GRANT USAGE ON SCHEMA pawl TO clerk; GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO clerk`)
	rules := filepath.Join(server.Dir(), "data", "pg_hba.conf")
	before, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rules, append([]byte("local all clerk scram-sha-256\n"), before...), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, c, "SELECT pg_reload_conf()")
	open := "host=" + server.Dir() + " user=clerk database=locked "
	testwait.Until(t, bound, "a password is asked for", func() bool { return guardCommand(t, open, "seen", "r").code == 77 })
	for _, r := range []result{
		guardCommand(t, open+"password="+wrong, "seen", "r"),
		finish(t, pawlCommand(t, bound, "guard", "seen", "r", "--dsn", "postgres://clerk:"+wrong+"@/locked?host="+server.Dir())),
	} {
		expect(t, r, 77, "password authentication failed")
		if strings.Contains(r.stdout+r.stderr, wrong) {
			t.Errorf("the password is shown: %v", r)
		}
	}
	expect(t, guardCommand(t, open+"password="+right, "seen", "r"), 0)
	cmd := pawlCommand(t, bound, "guard", "seen", "r", "--dsn", open)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+right)
	expect(t, finish(t, cmd), 0)
	passwords := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(passwords, []byte("*:*:*:clerk:s3cr3t/w\\:rd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = pawlCommand(t, bound, "guard", "seen", "r", "--dsn", open)
	cmd.Env = append(cmd.Env, "PGPASSFILE="+passwords)
	expect(t, finish(t, cmd), 0)
}

// demoDatabases counts what demos have made and not dropped.
func demoDatabases(t *testing.T, c *pgx.Conn) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'pawl_demo_%'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDemoZombieOnPostgres(t *testing.T) {
	_, dsn := postgres(t, "demo")
	c := connect(t, dsn)
	cmd := pawlCommand(t, 2*bound, "demo", "zombie", "--json", "--postgres", dsn)
	r := finish(t, cmd)
	expect(t, r, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	type half struct {
		Lost    string
		Refused bool `json:"late_write_refused"`
	}
	var v struct {
		OK                 bool
		Unguarded, Guarded half
		Outage             struct {
			Lost          string
			Rode, Resumed bool
			Alone         bool `json:"wrote_while_down"`
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatal(err)
	}
	if !v.OK || v.Unguarded != (half{"20", false}) || v.Guarded != (half{"0", true}) {
		t.Errorf("the verdict is %+v", v)
	}
	if o := v.Outage; o.Lost != "0" || !o.Rode || !o.Alone || !o.Resumed {
		t.Errorf("in the outage: %+v", o)
	}
	for _, part := range []string{`"PostgreSQL"`, `"pgguard"`} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("%s is missing: %s", part, lines[0])
		}
	}
	if n := demoDatabases(t, c); n != 0 {
		t.Errorf("%d databases are left", n)
	}
	// The guard's schema is the demo's own, too: nothing is in the user's database.
	expect(t, guardCommand(t, dsn, "seen", "ledger"), 65)

	must(t, c, "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
	r = finish(t, pawlCommand(t, bound, "demo", "zombie", "--postgres", strings.Replace(dsn, "user=postgres", "user=guest", 1)))
	expect(t, r, 1, "a database of its own")
}

// An interrupted demo leaves nothing on the server.
func TestDemoOnPostgresInterrupted(t *testing.T) {
	_, dsn := postgres(t, "interrupted")
	c := connect(t, dsn)
	cmd := pawlCommand(t, 2*bound, "demo", "zombie", "--json", "--ttl", "10s", "--postgres", dsn)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var m struct{ Who, What string }
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.Who == "B" && m.What == "asks" { // A is stopped, B waits
			if n := demoDatabases(t, c); n != 1 {
				t.Errorf("%d databases while it runs", n)
			}
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	_ = cmd.Wait() // its code tells
	if code := shellCode(cmd.ProcessState); code != 128+int(syscall.SIGINT) {
		t.Errorf("it ended with %d", code)
	}
	if n := demoDatabases(t, c); n != 0 {
		t.Errorf("%d databases are left", n)
	}
}
