//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// holds opens a transaction that has entered under f and written text, as a
// holder does that is paused there.
func (d *database) holds(t *testing.T, f guard.Fence, text string) pgx.Tx {
	t.Helper()
	tx, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	if err := d.guard.Enter(t.Context(), tx, f); err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), tx, f.Resource, text); err != nil {
		t.Fatal(err)
	}
	return tx
}

// The next holder is told that a transaction is in the way, not that its lease is over.
func TestPausedHolder(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			d := fresh(t)
			d.guard = d.guard.Isolation(level).Wait(time.Millisecond)
			d.mustClaim(t, fence("x", 5))
			paused := d.holds(t, fence("x", 5), "early")

			err := d.guard.Claim(t.Context(), fence("x", 6))
			wantOnly(t, err, pgguard.ErrBusy)
			wantCode(t, err, "55P03")
			err = d.append(t.Context(), fence("x", 6), "next")
			wantOnly(t, err, pgguard.ErrBusy)
			wantCode(t, err, "55P03")
			if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 5 {
				t.Errorf("the mark is %+v, %v", s, err)
			}

			if err := paused.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.mustClaim(t, fence("x", 6))
			wantOnly(t, d.append(t.Context(), fence("x", 5), "late"), guard.ErrStale)
			d.wantList(t, "x", "early")
		})
	}
}

// A claim that waited for the old holder's transaction sees what it did, at the first
// attempt, also where the first snapshot was too old for that.
func TestClaimAfterWaitSeesOldHoldersWork(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			d := fresh(t)
			d.guard = d.guard.Isolation(level)
			d.mustClaim(t, fence("x", 5))
			paused := d.holds(t, fence("x", 5), "early")
			end := make(chan error, 1)
			var texts []string
			go func() {
				end <- d.guard.InTx(t.Context(), fence("x", 6), func(tx pgx.Tx) error {
					rows, err := tx.Query(t.Context(), `select text from list`)
					if err == nil {
						texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
					}
					return err
				})
			}()
			d.waiters(t, 1)
			if err := paused.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-end; err != nil || len(texts) != 1 {
				t.Errorf("read %q, %v", texts, err)
			}
		})
	}
}

// TestTerminatePausedHolder is the documented way out when a holder sleeps
// inside a transaction and its connection stays.
func TestTerminatePausedHolder(t *testing.T) {
	d := fresh(t)
	d.guard = d.guard.Wait(time.Millisecond)
	d.mustClaim(t, fence("x", 5))
	paused := d.holds(t, fence("x", 5), "late")
	other := d.holds(t, fence("y", 3), "of another resource")
	wantOnly(t, d.guard.Claim(t.Context(), fence("x", 6)), pgguard.ErrBusy)

	blockers, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 {
		t.Fatalf("blockers: %+v, %v", blockers, err)
	}
	b := blockers[0]
	if b.PID != int(paused.Conn().PgConn().PID()) || b.Token != 5 || b.Role != "postgres" ||
		b.State != "idle in transaction" || b.Since.IsZero() || b.Prepared != "" {
		t.Errorf("the blocker is %+v", b)
	}
	for _, f := range []guard.Fence{fence("x", 5), fence("z", 9)} {
		if n, err := d.guard.Terminate(t.Context(), f); n != 0 || err != nil {
			t.Errorf("terminate for %v: %d, %v", f, n, err)
		}
	}
	_, err = d.guard.Terminate(t.Context(), fence("x", 4))
	wantOnly(t, err, guard.ErrStale)

	if n, err := d.guard.Terminate(t.Context(), fence("x", 6)); n != 1 || err != nil {
		t.Fatalf("terminated %d, %v", n, err)
	}
	testwait.Until(t, bound, "a claim", func() bool { return d.guard.Claim(t.Context(), fence("x", 6)) == nil })
	if err := paused.Commit(t.Context()); err == nil {
		t.Error("the terminated transaction committed")
	}
	d.wantList(t, "x")
	if err := other.Commit(t.Context()); err != nil {
		t.Errorf("the transaction of another resource: %v", err)
	}
}

// The database can do the same unasked. What the holder is told, when it wakes up and
// commits, is unknown or an error, and its work is not there.
func TestIdleTimeoutEndsThePausedHolder(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("x", 5))
	claimed := false
	err := d.guard.InTx(t.Context(), fence("x", 5), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `set local idle_in_transaction_session_timeout = 1`); err != nil {
			return err
		}
		claimed = testwait.Holds(bound, func() bool { return d.guard.Claim(t.Context(), fence("x", 6)) == nil })
		return nil
	})
	if !claimed {
		t.Error("the sleeping holder kept the next one out")
	}
	if err == nil {
		t.Error("the sleeping holder's commit succeeded")
	}
	wantNone(t, err, guard.ErrUnknown)
	d.wantList(t, "x")
}

// Neither who is inside the resource of this name in another database, nor who waits for
// the same holder.
func TestOnlyTransactionsInsideGuardBlock(t *testing.T) {
	d, old, next := naive(t)
	elsewhere := fresh(t)
	other := elsewhere.holds(t, fence("x", 5), "of another database")
	if b, err := d.guard.Blockers(t.Context(), "x"); err != nil || len(b) != 0 {
		t.Errorf("nobody is inside, and the blockers are %+v, %v", b, err)
	}
	old.must(begin, enter5)
	next.must(begin)
	end := next.blocked(enter6)
	b, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(b) != 1 || b[0].PID != old.pid {
		t.Errorf("the blockers are %+v, %v, want the holder alone", b, err)
	}
	if n, err := d.guard.Terminate(t.Context(), fence("x", 7)); n != 1 || err != nil {
		t.Errorf("terminated %d, %v, want the holder alone", n, err)
	}
	wantEnd(t, end, "")
	next.must(commit)
	if err := other.Commit(t.Context()); err != nil {
		t.Errorf("the transaction of another database: %v", err)
	}
}

// A holder that sleeps in the transaction that raised the mark has a token that nobody
// else can read yet.
func TestTerminateSessionThatRaises(t *testing.T) {
	d := fresh(t)
	d.guard = d.guard.Wait(time.Millisecond)
	paused := d.holds(t, fence("x", 1<<52+5), "late")
	blockers, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 || blockers[0].Token != 1<<52+5 {
		t.Fatalf("blockers: %+v, %v", blockers, err)
	}
	if n, err := d.guard.Terminate(t.Context(), fence("x", 1<<52+5)); n != 0 || err != nil {
		t.Errorf("terminated %d of its own token, %v", n, err)
	}
	if n, err := d.guard.Terminate(t.Context(), fence("x", 1<<52+6)); n != 1 || err != nil {
		t.Errorf("terminated %d, %v", n, err)
	}
	testwait.Until(t, bound, "a claim", func() bool { return d.guard.Claim(t.Context(), fence("x", 1<<52+6)) == nil })
	if err := paused.Commit(t.Context()); err == nil {
		t.Error("the terminated transaction committed")
	}
}

// A prepared transaction stays in the guard without a connection, also over a restart of
// the server.
func TestPreparedTransaction(t *testing.T) {
	d, old, next := naive(t)
	d.guard = d.guard.Wait(time.Millisecond)
	old.must(begin, enter5, late, `prepare transaction 'of x'`)
	wantOnly(t, d.guard.Claim(t.Context(), fence("x", 6)), pgguard.ErrBusy)
	blockers, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 || blockers[0].Prepared != "of x" || blockers[0].PID != 0 || blockers[0].Token != 5 {
		t.Fatalf("blockers: %+v, %v", blockers, err)
	}
	if n, err := d.guard.Terminate(t.Context(), fence("x", 6)); n != 0 || err != nil {
		t.Errorf("terminated %d, %v", n, err)
	}
	next.must(`commit prepared 'of x'`)
	d.mustClaim(t, fence("x", 6))
	d.wantList(t, "x", "late")
}

func TestContextEndsTheWait(t *testing.T) {
	d := fresh(t)
	d.guard = d.guard.Wait(0)
	paused := d.holds(t, fence("x", 7), "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("the lease is lost")
	end := make(chan error, 1)
	go func() { end <- d.guard.Claim(ctx, fence("x", 8)) }()
	d.waiters(t, 1)
	cancel(lost)
	err := <-end
	wantOnly(t, err, context.Canceled)
	wantOnly(t, err, lost)
	if err := paused.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 7 {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

// The guard's bound does not stay with the transaction, and the database's own bound
// holds where the guard has none.
func TestWaitKeepsToTheTimeouts(t *testing.T) {
	d, old, next := naive(t)
	old.must(begin, enter5)
	next.refused("55P03", `set lock_timeout = '7ms'`, enter6)
	next.must(`set lock_timeout = '1h'`)
	next.refused("55P03", begin, `select pawl.enter('x', '`+cell+`', 6, 1)`)
	next.must(`rollback`)

	next.must(`set lock_timeout = 0`, begin)
	end := next.blocked(enter6)
	old.must(commit)
	wantEnd(t, end, "")
	var timeout string
	if err := next.QueryRow(t.Context(), `show lock_timeout`).Scan(&timeout); err != nil || timeout != "0" {
		t.Errorf("lock_timeout is %q, %v", timeout, err)
	}
	next.must(commit)
	d.mustClaim(t, fence("x", 6))
}

// Two transactions that enter in different orders do not wait for ever.
func TestSeveralResources(t *testing.T) {
	d, first, second := naive(t)
	d.mustClaim(t, fence("y", 5))
	enter := func(resource, token string) string {
		return `select pawl.enter('` + resource + `', '` + cell + `', ` + token + `, 0)`
	}
	first.must(begin, enter("x", "5"))
	second.must(begin, enter("y", "5"))
	end := first.blocked(enter("y", "6"))
	err := second.try(enter("x", "6"))
	if err == nil {
		err = <-end
	} else {
		second.must(`rollback`)
		wantEnd(t, end, "")
	}
	wantCode(t, err, "40P01")
}
