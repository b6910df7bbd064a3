//go:build unix

package postgres

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// C84: whatever ends the backend while the answer to the commit is awaited, the outcome
// is unknown, whether it landed or not.
func TestBackendKilledAtCommit(t *testing.T) {
	d := fresh(t)
	// The commit runs a deferred trigger, which waits for a lock that we hold.
	d.mustExec(t, `create function slow() returns trigger language plpgsql as
		$$ begin perform pg_advisory_xact_lock(1); return null; end $$;
		create constraint trigger slow after insert on list deferrable initially deferred for each row execute function slow()`)
	gate := d.session(t)
	gate.must(begin, `select pg_advisory_xact_lock(1)`)
	end := make(chan error, 1)
	pid := make(chan int, 1)
	go func() {
		end <- d.guard.InTx(t.Context(), fence("x", 5), func(tx pgx.Tx) error {
			pid <- int(tx.Conn().PgConn().PID())
			return add(t.Context(), tx, "x", "a")
		})
	}()
	backend := <-pid
	d.waits(t, backend)
	d.mustExec(t, `select pg_terminate_backend($1)`, backend)
	err := <-end
	wantOnly(t, err, guard.ErrUnknown)
	wantCode(t, err, "57P01")
	gate.must(commit)
	d.wantList(t, "x")
}

// C84: a server is killed when the commit has been sent. Afterwards either both the
// work and the mark are there, or neither is, and the holder goes on.
func TestServerKilledAtCommit(t *testing.T) {
	wholly(t)
	own, err := testpostgres.Start(testpostgres.Options{Bin: server.Bin})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	}()
	d := open(t, own.DSN("postgres"))
	d.mustExec(t, `create table list (id bigserial primary key, resource text not null, text text not null)`)
	if err := d.guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid, err := own.PID()
	if err != nil {
		t.Fatal(err)
	}
	quit := func() { _ = syscall.Kill(pid, syscall.SIGQUIT) }
	for _, landed := range []bool{true, false} {
		d.wire.onCommit.Store(&fate{landed: landed, then: quit})
		wantOnly(t, d.append(t.Context(), fence("x", 5), "a"), guard.ErrUnknown)
		wantNone(t, d.append(t.Context(), fence("x", 5), "b")) // it is down, or comes up, or is up
		if err := own.Restart(); err != nil {
			t.Fatal(err)
		}
		d.Reset()
		rows := d.count(t, `select count(*) from list`)
		s, err := d.guard.Seen(t.Context(), "x")
		if err != nil || (rows == 0) != (s.Seen == 0) {
			t.Errorf("landed %t: %d rows under the mark %+v, %v", landed, rows, s, err)
		}
		d.mustClaim(t, fence("x", 6))
		wantOnly(t, d.append(t.Context(), fence("x", 5), "late"), guard.ErrStale)
		d.mustExec(t, `alter table pawl.guard disable trigger keep; delete from pawl.guard; delete from list;
			alter table pawl.guard enable trigger keep`)
		if pid, err = own.PID(); err != nil {
			t.Fatal(err)
		}
	}
}

// What the database itself says about a commit is certain.
func TestCommitRefused(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table child (parent bigint references list deferrable initially deferred)`)
	err := d.guard.InTx(t.Context(), fence("x", 7), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `insert into child values (404)`)
		return err
	})
	wantCode(t, err, "23503")
	wantNone(t, err)
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 0 {
		t.Errorf("the mark is %+v, %v", s, err)
	}

	err = d.guard.InTx(t.Context(), fence("x", 7), func(tx pgx.Tx) error {
		_ = add(t.Context(), tx, "x", "a")
		_, _ = tx.Exec(t.Context(), `select 1/0`) // and nobody looks
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("a commit after a failed statement: %v", err)
	}
	wantNone(t, err)
	d.wantList(t, "x")
}

// A serialization failure at commit is ErrBusy, and its outcome is certain.
func TestSerializationFailureAtCommit(t *testing.T) {
	d := fresh(t)
	d.guard = d.guard.Isolation(pgx.Serializable)
	d.mustClaim(t, fence("x", 5))
	d.mustExec(t, `create table sum (n int); insert into sum values (1)`)
	const skew = `insert into sum select sum(n) from sum`
	s := d.session(t)
	err := d.guard.InTx(t.Context(), fence("x", 5), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), skew); err != nil {
			return err
		}
		s.must(`begin isolation level serializable`, skew, commit)
		return nil
	})
	wantOnly(t, err, pgguard.ErrBusy)
	wantCode(t, err, "40001")
	if n := d.count(t, `select count(*) from sum`); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

// A context that ends while the commit is under way does not make a known outcome
// unknown.
func TestCommitIsNotInterrupted(t *testing.T) {
	d := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.mustExec(t, `create function slow() returns trigger language plpgsql as
		$$ begin perform pg_advisory_xact_lock(1); return null; end $$;
		create constraint trigger slow after insert on list deferrable initially deferred for each row execute function slow()`)
	gate := d.session(t)
	gate.must(begin, `select pg_advisory_xact_lock(1)`)
	end := make(chan error, 1)
	go func() { end <- d.append(ctx, fence("x", 7), "a") }()
	d.waiters(t, 1)
	cancel()
	gate.must(commit)
	if err := <-end; err != nil {
		t.Error(err)
	}
	d.wantList(t, "x", "a")
}

// The driver's own way is the contract's.
func TestFunctionEndsTheTransactionBySQL(t *testing.T) {
	wantOnly(t, fresh(t).guard.InTx(t.Context(), fence("x", 7), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `commit`)
		return err
	}), guard.ErrUnknown)
}

// A zombie that tries again and again does not make the database open connections.
func TestRefusalKeepsTheConnection(t *testing.T) {
	d := open(t, fresh(t).dsn, func(c *pgxpool.Config) { c.MaxConns = 1 })
	d.mustClaim(t, fence("x", 8))
	for range 10 {
		wantOnly(t, d.append(t.Context(), fence("x", 7), "late"), guard.ErrStale)
	}
	if n := d.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were opened, want 1", n)
	}
}

// A caller that ignores the error cannot commit all the same.
func TestRefusedEnterEndsTheTransaction(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("x", 8))
	for _, f := range []guard.Fence{fence("x", 7), fence("x", 0)} {
		tx, err := d.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.guard.Enter(t.Context(), tx, f) == nil {
			t.Fatalf("%v was not refused", f)
		}
		if err := add(t.Context(), tx, "x", "late"); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("writing after a refusal: %v", err)
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("committing after a refusal: %v", err)
		}
	}
	d.wantList(t, "x")
}

// Nothing was sent, so nothing took effect.
func TestNoServer(t *testing.T) {
	d := open(t, "host="+t.TempDir()+" user=nobody")
	err := d.append(t.Context(), fence("x", 7), "a")
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		t.Errorf("got %v, want the driver's error", err)
	}
	wantNone(t, err)
}
