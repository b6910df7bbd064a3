//go:build unix

package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// alone is the one that also blocks readers of the table.
const alone = "table locked against reading"

// inTheWay are transactions that hold up claims without being inside the guard.
var inTheWay = map[string][]string{
	"watch":                       {`select pawl.watch('other')`},
	"enforce":                     {`select pawl.enforce('list', 'x')`},
	"enforce by rows":             {`select pawl.enforce_rows('list', 'resource')`},
	"a migration that stays open": {`select pawl.relax('list')`, `update list set text = 'new'`, `select pawl.enforce('list', 'x')`},
	alone:                         {`lock table pawl.guard in access exclusive mode`},
	"table locked for an index":   {`lock table pawl.guard in share mode`},
	"the mark's row locked":       {`select from pawl.guard for update`},
	"the mark changed by hand":    {`update pawl.guard set raised = now()`},
}

// Whatever blocks a claim, the claim fails when its wait has passed, names the blocker,
// and changes nothing. Each wait is 1 ms; a wait without a bound lasts until the end of
// the test's context.
func TestClaimWaitIsBounded(t *testing.T) {
	for what, statements := range inTheWay {
		t.Run(what, func(t *testing.T) {
			d := fresh(t)
			d.mustExec(t, `select pawl.watch()`)
			d.mustClaim(t, fence("x", 5))
			blocker := d.session(t)
			blocker.must(append([]string{begin}, statements...)...)
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()

			short := d.guard.Wait(time.Millisecond)
			for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
				if what == alone && level == pgx.ReadCommitted {
					continue // the quick way reads the mark as any table is read
				}
				g := short.Isolation(level)
				err := g.InTx(ctx, fence("x", 6), func(pgx.Tx) error { t.Error("it is inside"); return nil })
				wantOnly(t, err, pgguard.ErrBusy)
				wantCode(t, err, "55P03")
			}
			wantOnly(t, short.Claim(ctx, fence("x", 6)), pgguard.ErrBusy)
			tx, err := d.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			wantOnly(t, short.Offset(ctx, tx, fence("x", 6), "p", 0, 1), pgguard.ErrBusy)

			// By SQL, and by the session's own lock_timeout.
			s := d.session(t)
			s.refused("55P03", begin, `select pawl.claim('x', '`+cell+`', 6, 1)`)
			s.refused("55P03", `rollback`, `set lock_timeout = '1ms'`, enter6)

			blockers, err := d.guard.Blockers(ctx, "x")
			if err != nil || len(blockers) != 1 || blockers[0].PID != blocker.pid || blockers[0].Token != 0 || blockers[0].State != "idle in transaction" {
				t.Errorf("blockers: %+v, %v; expected %d", blockers, err, blocker.pid)
			}
			// What has no token is ended by hand.
			if what != alone {
				if n, err := d.guard.Terminate(ctx, fence("x", 6)); n != 0 || err != nil {
					t.Errorf("terminated %d, %v", n, err)
				}
			} else {
				s.refused("55P03", `select pawl.terminate_blockers('x', '`+cell+`', 6)`)
				s.refused("55P03", `select pawl.held('x', '`+cell+`', 5)`)
			}
			blocker.must(`rollback`)
			d.wantMark(t, "x", 5)
			d.mustClaim(t, fence("x", 6))
		})
	}
}

// Two rows of one name wait for each other at the index.
func TestClaimWaitsForUncommittedMark(t *testing.T) {
	d := fresh(t)
	blocker := d.session(t)
	blocker.must(begin, `insert into pawl.guard values ('x', '`+cell+`', 5)`)
	wantOnly(t, d.guard.Wait(time.Millisecond).Claim(t.Context(), fence("x", 6)), pgguard.ErrBusy)
	blockers, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 || blockers[0].PID != blocker.pid {
		t.Errorf("blockers: %+v, %v; expected %d", blockers, err, blocker.pid)
	}
	blocker.must(commit)
	d.mustClaim(t, fence("x", 6))
}

// Any role that is admitted may watch, and is named. One that only waits to watch holds
// up those behind it as well.
func TestAdmittedRoleHoldsUpClaims(t *testing.T) {
	d := fresh(t)
	dsn := d.asRole(t, "watching_writer")
	if err := d.guard.Grant(t.Context(), "watching_writer"); err != nil {
		t.Fatal(err)
	}
	asleep, watcher := d.session(t), d.as(t, dsn)
	asleep.must(begin, `select pawl.enter('another', '`+cell+`', 5)`)
	watcher.must(`set lock_timeout = '1h'`, begin)
	end := watcher.blocked(`select pawl.watch('z')`)
	for _, granted := range []bool{false, true} {
		wantOnly(t, d.guard.Wait(time.Millisecond).Claim(t.Context(), fence("x", 6)), pgguard.ErrBusy)
		blockers, err := d.guard.Blockers(t.Context(), "x")
		if err != nil || len(blockers) != 1 || blockers[0].PID != watcher.pid || blockers[0].Role != "watching_writer" {
			t.Errorf("granted is %t, and the blockers are %+v, %v; expected %d", granted, blockers, err, watcher.pid)
		}
		if !granted {
			asleep.must(commit)
			wantEnd(t, end, "")
		}
	}
	watcher.must(`rollback`)
	d.mustClaim(t, fence("x", 6))
}

// Who is inside the guard and has watched, too, is one, with its token; who is inside
// another resource is none.
func TestBlockersListsEachOnce(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("other", 5)) // a raise under an old snapshot may be refused
	both, other := d.session(t), d.session(t)
	other.must(`begin isolation level repeatable read`, `select pawl.enter('other', '`+cell+`', 5)`)
	both.must(begin, enter5)
	blockers, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 || blockers[0].PID != both.pid || blockers[0].Token != 5 {
		t.Errorf("blockers: %+v, %v", blockers, err)
	}
	other.must(commit)
	both.must(`select pawl.watch()`, `prepare transaction 'both'`)
	blockers, err = d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 || blockers[0].Prepared != "both" || blockers[0].Token != 5 {
		t.Errorf("blockers: %+v, %v", blockers, err)
	}
	if blockers, err = d.guard.Blockers(t.Context(), "y"); err != nil || len(blockers) != 1 || blockers[0].Prepared != "both" || blockers[0].Token != 0 {
		t.Errorf("blockers of another resource: %+v, %v", blockers, err)
	}
	both.must(`commit prepared 'both'`)
}

// Two transactions of one holder that move the same offset take turns, and the second
// waits no longer than it is told.
func TestOffsetWaitIsBounded(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("x", 5))
	const move = `select pawl.move_offset('x', '` + cell + `', 5, 'p', `
	first, second := d.session(t), d.session(t)
	first.must(begin, move+`0, 1)`)
	second.refused("55P03", begin, move+`0, 1, 1)`)
	second.must(`rollback`)
	first.must(commit, begin, move+`1, 2)`)
	second.refused("55P03", begin, move+`1, 2, 1)`)
	second.must(`rollback`)
	first.must(commit)
	second.must(move + `2, 3, 1)`)
}

// The lock that tells which token raises is never waited for.
func TestForeignTokenLockIsNotWaitedFor(t *testing.T) {
	d := fresh(t)
	d.session(t).must(`select pg_advisory_lock(4611686018427387904 | 6)`)
	if err := d.guard.Wait(time.Millisecond).Claim(t.Context(), fence("x", 6)); err != nil {
		t.Error(err)
	}
}

// The steps of one call share its wait.
func TestStepsOfCallShareWait(t *testing.T) {
	d := fresh(t)
	for call, want := range map[string][2]int{
		`0, clock_timestamp() - interval '1h'`:       {0, 0},
		`500, clock_timestamp() - interval '1h'`:     {1, 1},
		`500, clock_timestamp() + interval '1h'`:     {500, 500},
		`7200000, clock_timestamp() - interval '1h'`: {1, 3600000},
	} {
		if n := d.count(t, `select pawl.wait_left(`+call+`)`); n < want[0] || n > want[1] {
			t.Errorf("wait_left(%s) is %d, want %v", call, n, want)
		}
	}
}

// No call leaves another lock_timeout behind, in the transaction or after it.
func TestLockTimeoutIsRestored(t *testing.T) {
	d := fresh(t)
	s := d.session(t)
	d.mustExec(t, `create table other (id text)`)
	for _, timeout := range []string{"0", "1h", "1234567ms"} {
		s.must(`set lock_timeout = '`+timeout+`'`, begin)
		for _, call := range []string{
			`enter('x', '` + cell + `', 5, 700)`, `enter('x', '` + cell + `', 5)`, `claim('x', '` + cell + `', 5, 700)`, `held('x', '` + cell + `', 5, 700)`,
			`reenter('x', '` + cell + `', 5, 700)`, `move_offset('x', '` + cell + `', 5, 'p', 0, 1, 700)`, `move_offset('x', '` + cell + `', 5, 'p', 1, 2)`,
			`blockers('x')`, `terminate_blockers('x', '` + cell + `', 5)`, `watch()`, `enforce('other', 'x')`, `enforce_rows('other', 'id')`, `relax('other')`,
		} {
			s.must(`select pawl.` + call)
			var now string
			if err := s.QueryRow(t.Context(), `show lock_timeout`).Scan(&now); err != nil || now != timeout {
				t.Errorf("after %s lock_timeout is %q, %v, want %q", call, now, err, timeout)
			}
		}
		s.must(`rollback`)
	}
}

// A session in which a backslash means something in a plain literal, as old programs set
// it, installs, enforces, claims and writes.
func TestStandardConformingStringsOff(t *testing.T) {
	const off = `set standard_conforming_strings = off`
	d := bare(t)
	s := d.session(t)
	if err := s.try(off); err != nil {
		t.Skip("this server has no such setting any more")
	}
	s.must(begin, pgguard.DDL(), commit)
	old := open(t, d.dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	})
	d.mustExec(t, `create table rows (tenant text)`)
	for _, name := range []string{`plain`, `back\slash`, `quo'te`, `\' or true --`} {
		f := fence(name, 5)
		if err := old.guard.Enforce(t.Context(), "list", pgguard.Rule{Resource: name}); err != nil {
			t.Fatal(err)
		}
		if err := old.guard.Enforce(t.Context(), "rows", pgguard.Rule{Column: "tenant", Prefix: `p\`}); err != nil {
			t.Fatal(err)
		}
		for f.Token = 5; f.Token < 7; f.Token++ {
			old.mustClaim(t, f)
			if err := old.append(t.Context(), f, "a"); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		old.wantMark(t, name, 6)
		wantOnly(t, old.append(t.Context(), fence(name, 5), "late"), guard.ErrStale)
		s.refused("FE002", late)
		row := fence(`p\`+name, 5)
		err := old.guard.InTx(t.Context(), row, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `insert into rows values ($1)`, name)
			return err
		})
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	rows, err := d.Query(t.Context(), `select resource from pawl.guard where token = 6 order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{`\' or true --`, `back\slash`, `plain`, `quo'te`}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the marks are of %q, %v, want %q", names, err, want)
	}
}
