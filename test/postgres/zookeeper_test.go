//go:build unix

package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

const (
	lockPath = "/locks/ledger"
	// workerVariable has this binary play a worker; it holds the server's address
	// and the database's connection string.
	workerVariable = "PAWL_PGTEST_WORKER"
	// briefSession is the worker's: it is over soon after the worker was stopped.
	briefSession = 2 * time.Second
)

func init() {
	if where := os.Getenv(workerVariable); where != "" {
		address, dsn, _ := strings.Cut(where, " ")
		if err := playWorker(address, dsn); err != nil {
			fmt.Println("failed:", err)
		}
		os.Exit(0)
	}
}

// playWorker locks, claims, reads, and says so; at the next line it writes what
// it computed from what it had read, in a table with the guard and one without.
func playWorker(address, dsn string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, _, err := zk.Connect([]string{address}, briefSession, zk.WithLogger(silentLogger{}))
	if err != nil {
		return err
	}
	_, fence, err := lockWithFence(conn, lockPath, "ledger")
	for err != nil { // on a busy machine so brief a session may end at any time
		_, fence, err = lockWithFence(conn, lockPath, "ledger")
	}
	g := pgguard.New(pool)
	if err := g.Claim(ctx, fence); err != nil {
		return err
	}
	var balance int
	if err := pool.QueryRow(ctx, `select balance from ledger`).Scan(&balance); err != nil {
		return err
	}
	fmt.Println("holds", fence.Token)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, `update bare set balance = $1`, balance+1); err != nil {
		return err
	}
	err = g.InTx(ctx, fence, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update ledger set balance = $1`, balance+1)
		return err
	})
	if errors.Is(err, guard.ErrStale) {
		fmt.Println("stale")
	} else {
		fmt.Println("not refused:", err)
	}
	return nil
}

// TestZookeeperZxidAsToken is docs/guards-postgres.md's "the lock you have" with
// ZooKeeper: no part of pawl but the guard, and a worker in a process of its own.
//
//  1. The worker locks, claims, reads the balance, and is stopped.
//  2. ZooKeeper ends its session. Another one locks, claims, reads and writes.
//  3. The worker goes on and writes what it had computed. Where nothing guards, the
//     other's work is lost; the guard refuses.
func TestZookeeperZxidAsToken(t *testing.T) {
	keeper := keepers(t, 1)
	d := ledger(t)
	if err := d.guard.Enforce(t.Context(), "ledger", pgguard.Rule{Resource: "ledger"}); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, keeper, d)
	said := w.line(t)
	token, err := guard.ParseToken(strings.TrimPrefix(said, "holds "))
	if err != nil {
		t.Fatalf("the worker says %q", said)
	}
	w.signal(t, syscall.SIGSTOP)

	second := locked(t, keeper.visitor(t)) // waits for the end of the worker's session
	if second.Token <= token {
		t.Fatalf("the second lock's czxid %d is not above the first's, %d", second.Token, token)
	}
	if err := d.guard.Claim(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if b := d.balance(t, "ledger"); b != 100 {
		t.Fatalf("the balance is %d before anybody wrote", b)
	}
	d.mustExec(t, `update bare set balance = 110`)
	if err := d.pay(t, second, 110); err != nil {
		t.Fatal(err)
	}

	w.signal(t, syscall.SIGCONT)
	if _, err := io.WriteString(w.in, "go on\n"); err != nil {
		t.Fatal(err)
	}
	if said := w.line(t); said != "stale" {
		t.Errorf("the late write: the worker says %q, want stale", said)
	}
	if b := d.balance(t, "ledger"); b != 110 {
		t.Errorf("the guarded balance is %d, want 110", b)
	}
	if b := d.balance(t, "bare"); b != 101 {
		t.Errorf("the balance without a guard is %d: the late write did not come, so nothing was shown", b)
	}
}

// ledger is a database with a balance of 100, once to be guarded and once bare.
func ledger(t testing.TB) *database {
	t.Helper()
	d := fresh(t)
	d.mustExec(t, `create table ledger (balance int)`)
	d.mustExec(t, `create table bare (balance int)`)
	d.mustExec(t, `insert into ledger values (100)`)
	d.mustExec(t, `insert into bare values (100)`)
	return d
}

func (d *database) balance(t testing.TB, table string) (balance int) {
	t.Helper()
	if err := d.QueryRow(t.Context(), `select balance from `+table).Scan(&balance); err != nil {
		t.Fatal(err)
	}
	return balance
}

func (d *database) pay(t testing.TB, f guard.Fence, balance int) error {
	t.Helper()
	return d.guard.InTx(t.Context(), f, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `update ledger set balance = $1`, balance)
		return err
	})
}

// locked takes the lock, in time.
func locked(t testing.TB, conn *zk.Conn) guard.Fence {
	t.Helper()
	late := time.AfterFunc(bound, conn.Close)
	defer late.Stop()
	_, fence, err := lockWithFence(conn, lockPath, "ledger")
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

// worker is a process with the lock.
type worker struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startWorker(t *testing.T, keeper *ensemble, d *database) *worker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: exec.Command(self)}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+keeper.members[0].address+" "+d.dsn)
	w.cmd.Stderr = t.Output()
	in, err1 := w.cmd.StdinPipe()
	out, err2 := w.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, w.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	w.in, w.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		_ = w.cmd.Wait()
	})
	return w
}

func (w *worker) line(t *testing.T) string {
	t.Helper()
	late := time.AfterFunc(bound, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	text, err := w.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the worker says nothing more: %v", err)
	}
	return strings.TrimSpace(text)
}

func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
