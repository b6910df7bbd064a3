//go:build unix

package postgres

import (
	"testing"
)

// Simple guards that fail. Each test shows what is wrong with one of them and, on the
// same steps, what pawl.enter does. Session old acts under token 5, session next under
// 6. old must never commit after next has.

// naive makes a mark of 5 for a guard of one's own, and for ours.
func naive(t *testing.T) (d *database, old, next *session) {
	t.Helper()
	d = fresh(t)
	d.mustExec(t, `create table mark (resource text primary key, token bigint not null)`)
	d.mustExec(t, `insert into mark values ('x', 5)`)
	d.mustClaim(t, fence("x", 5))
	return d, d.session(t), d.session(t)
}

const raise = `update mark set token = 6 where resource = 'x' and token < 6`

func TestUpsertAloneMakesOneHolderTakeTurns(t *testing.T) {
	const upsert = `insert into mark as m values ('x', 5) on conflict (resource) do update set token = excluded.token
		where m.token < excluded.token`
	_, first, second := naive(t)
	first.must(begin, upsert)
	second.must(begin)
	end := second.blocked(upsert) // though it changes nothing
	first.must(commit)
	wantEnd(t, end, "")
	second.must(commit)

	first.must(begin, enter5)
	second.must(begin, enter5, commit)
	first.must(commit)
}

func TestKeyShareLockIsUnsafe(t *testing.T) {
	d, old, next := naive(t)
	old.must(begin, `select token from mark where resource = 'x' and token = 5 for key share`)
	next.must(raise) // is not held back
	old.must(late, commit)
	d.wantList(t, "x", "late")

	old.must(begin, enter5)
	next.must(begin)
	end := next.blocked(enter6)
	old.must(late, commit)
	wantEnd(t, end, "")
}

func TestShareThenUpdateDeadlocks(t *testing.T) {
	_, first, second := naive(t)
	const share = `select token from mark where resource = 'x' for share`
	first.must(begin, share)
	second.must(begin, share)
	end := first.blocked(raise)
	err := second.try(raise)
	if err == nil {
		err = <-end
	} else {
		second.must(`rollback`)
		wantEnd(t, end, "")
	}
	wantCode(t, err, "40P01")
	first.must(`rollback`)
	second.must(`rollback`)

	first.must(begin, enter6)
	second.must(begin)
	end = second.blocked(enter6)
	first.must(commit)
	wantEnd(t, end, "")
	second.must(commit)
}

// A claim that waits to raise the mark can be kept waiting for ever by transactions of
// the old holder that overlap.
func TestRowLocksLetHoldersOvertake(t *testing.T) {
	d, old, next := naive(t)
	another := d.session(t)
	const share = `select token from mark where resource = 'x' and token >= 5 for share`
	old.must(begin, share)
	end := next.blocked(raise)
	another.must(begin, share) // goes past the one that waits
	old.must(commit)
	d.waits(t, next.pid)
	another.must(commit)
	wantEnd(t, end, "")

	old.must(begin, enter5)
	next.must(begin)
	end = next.blocked(enter6)
	another.must(begin)
	behind := another.blocked(enter5)
	old.must(commit)
	wantEnd(t, end, "")
	next.must(commit)
	wantEnd(t, behind, "FE001")
}

func TestPlainReadIsUnsafe(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			d, old, next := naive(t)
			begin := begin + " isolation level " + level
			old.must(begin, `select token from mark where resource = 'x'`)
			next.must(begin, raise, young, commit)
			old.must(late, commit)
			d.wantList(t, "x", "young", "late")

			old.must(begin, `select 1`)
			d.mustClaim(t, fence("x", 6))
			old.refused("40001", enter5)
			old.must(`rollback`)
			old.refused("FE001", begin, enter5)
			old.must(`rollback`, begin, `select 1`)
			d.mustClaim(t, fence("x", 7))
			old.refused("40001", `select pawl.reenter('x', '`+cell+`', 6)`)
		})
	}
}

// The snapshot is older than the lock.
func TestAdvisoryLockAndPlainReadIsUnsafe(t *testing.T) {
	d, old, next := naive(t)
	old.must(beginRepeatable, `select 1`)
	next.must(begin, `select pg_advisory_xact_lock(1)`, raise, young, commit)
	old.must(`select pg_advisory_xact_lock_shared(1)`)
	var token int
	if err := old.QueryRow(t.Context(), `select token from mark`).Scan(&token); err != nil || token != 5 {
		t.Fatalf("the mark is read as %d, %v", token, err)
	}
	old.must(late, commit)
	d.wantList(t, "x", "young", "late")

	old.must(beginRepeatable, `select 1`)
	d.mustClaim(t, fence("x", 6))
	old.refused("40001", enter5)
}

// The new holder has waited for the old one, and does not see what it did.
func TestRaisingUnderOldSnapshotIsUnsafe(t *testing.T) {
	d, old, next := naive(t)
	const seesLate = `do $$ begin if not exists (select from list where text = 'late') then raise 'not seen'; end if; end $$`
	old.must(begin, `select token from mark where token >= 5 for share`, late)
	next.must(beginRepeatable)
	end := next.blocked(raise)
	old.must(commit)
	wantEnd(t, end, "")
	next.refused("P0001", seesLate)
	next.must(`rollback`)
	d.mustExec(t, `delete from list`)

	old.must(begin, enter5, late)
	next.must(beginRepeatable)
	end = next.blocked(enter6)
	old.must(commit)
	wantEnd(t, end, "40001")
	next.must(`rollback`, beginRepeatable, enter6, seesLate, commit)
}

// TestCommitBetweenSnapshotAndLock is the same race without a wait.
func TestCommitBetweenSnapshotAndLock(t *testing.T) {
	_, old, next := naive(t)
	old.must(begin, enter5, late)
	next.must(beginRepeatable, `select 1`)
	old.must(commit)
	next.refused("40001", enter6)
	next.must(`rollback`)

	// Nor may a transaction that has a number already count on it.
	next.refused("FE005", beginRepeatable, young, enter6)
}

// The lock goes with the savepoint. Only the trigger notices.
func TestLockInSavepointIsUnsafe(t *testing.T) {
	d, old, _ := naive(t)
	steps := []string{begin, `savepoint s`, enter5, `rollback to s`}
	old.must(steps...)
	d.mustClaim(t, fence("x", 6)) // is not held back
	old.must(late, commit)
	d.wantList(t, "x", "late")

	d.mustExec(t, `select pawl.enforce('list', 'x')`)
	d.mustExec(t, `select pawl.relax('list')`)
	d.mustExec(t, `select pawl.enforce('list', 'x')`)
	for i, s := range steps {
		if s == enter5 {
			steps[i] = enter6
		}
	}
	old.refused("FE002", append(steps, late)...)
	old.must(`rollback`)
	old.must(begin, enter6, `savepoint s`, enter6, `rollback to s`, late, commit)
}

// TestMarkRaisedBetweenReadAndLock stretches the moment between the first look at the
// mark and the lock, which is why enter looks twice.
func TestMarkRaisedBetweenReadAndLock(t *testing.T) {
	d, old, next := naive(t)
	d.mustExec(t, `create or replace function pawl.lock_key(resource text) returns bigint language plpgsql as $$ begin
		if current_setting('test.slow', true) = 'on' then perform pg_advisory_xact_lock(1); end if;
		return hashtextextended(resource, 7); end $$`)
	gate := d.session(t)
	gate.must(begin, `select pg_advisory_xact_lock(1)`)
	old.must(`set test.slow = 'on'`, begin)
	end := old.blocked(enter5)
	next.must(begin, enter6, young, commit)
	gate.must(commit)
	wantEnd(t, end, "FE001")
}
