//go:build unix

package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// bouncer starts a pgbouncer before the server, with a number of connections per
// database, and returns the folder of its socket.
func bouncer(t *testing.T, mode string, connections int) string {
	t.Helper()
	wholly(t)
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in everybody's PATH
	}
	dir, err := os.MkdirTemp("", "pgb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as, err := testpostgres.Unprivileged(dir)
	if err != nil {
		t.Fatal(err)
	}
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%s port=5432 user=postgres
[pgbouncer]
unix_socket_dir = %s
listen_addr =
listen_port = 5432
auth_type = any
pool_mode = %s
default_pool_size = %d
max_client_conn = 200
`, server.Dir(), dir, mode, connections)
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := testpostgres.StartProcess(as, dir, "process up", "TERM", program, ini)
	if err != nil {
		t.Fatalf("pgbouncer, which scripts/deps installs: %v", err)
	}
	t.Cleanup(p.Stop)
	return dir
}

// through opens a database by way of a pgbouncer.
func through(t *testing.T, d *database, dir string, mode pgx.QueryExecMode) *database {
	t.Helper()
	dsn := strings.Replace(d.dsn, "host="+server.Dir(), "host="+dir, 1)
	return open(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
}

// C83. TestBouncer runs the contract by way of pgbouncer in transaction mode, where a
// connection of the server is another one for each transaction.
func TestBouncer(t *testing.T) {
	dir := bouncer(t, "transaction", 20)
	for name, mode := range map[string]pgx.QueryExecMode{
		"exec": pgx.QueryExecModeExec, "simple protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Resource {
				return resource(through(t, fresh(t), dir, mode), pgx.ReadCommitted)
			})
		})
	}
}

// With one connection behind it, pgbouncer gives what a plain SET left there to somebody
// else, and it is refused as that.
func TestBouncerHandsALeakOn(t *testing.T) {
	d := through(t, fresh(t), bouncer(t, "transaction", 1), pgx.QueryExecModeSimpleProtocol)
	d.mustExec(t, `select pawl.enforce('list', 'x')`)
	leaky, other := d.session(t), d.session(t)
	leaky.must(begin, enter5, `do $$ begin perform set_config('pawl.fence', current_setting('pawl.fence'), false); end $$`, commit)
	var left string
	if err := other.QueryRow(t.Context(), `select current_setting('pawl.fence', true)`).Scan(&left); err != nil || left == "" {
		t.Fatalf("nothing leaked: %q, %v", left, err)
	}
	other.refused("FE003", late)
	other.must(begin, enter5, late, commit)
	if err := d.append(t.Context(), fence("x", 5), "a"); err != nil {
		t.Error(err)
	}
	d.wantList(t, "x", "late", "a")
}

// There are no transactions in it, so nothing can be guarded, and the answer is an error
// and no verdict. Work of one statement can.
func TestBouncerInStatementMode(t *testing.T) {
	real := fresh(t)
	real.mustClaim(t, fence("x", 5))
	d := through(t, real, bouncer(t, "statement", 2), pgx.QueryExecModeSimpleProtocol)
	err := d.append(t.Context(), fence("x", 5), "a")
	if err == nil {
		t.Error("a transaction in statement mode")
	}
	wantNone(t, err)
	s := d.session(t)
	const held = ` (select pawl.held('x', '` + cell + `', 5))`
	s.must(`insert into list (resource, text) select 'x', 'b' where` + held)
	real.mustClaim(t, guard.Fence{Resource: "x", Token: 6, Cell: cell})
	s.refused("FE001", `insert into list (resource, text) select 'x', 'late' where`+held)
	real.wantList(t, "x", "b")
}
