//go:build unix

package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
)

// A transaction with a single snapshot may raise the mark only if it sees all work of
// the holders before it. A transaction that commits after the snapshot had no number
// when the snapshot was taken, or it had one and was in progress.
//
//  1. A holder under token 5 is inside the guard and has a number.
//  2. Another transaction begins later and commits, or does not.
//  3. The next holder takes its snapshot, and waits for the first to raise the mark
//     to 6.
//  4. The first commits: the next holder's snapshot is too old.
func TestRaiseRefusedWhenHolderCommitsAfterSnapshot(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		for what, inProgress := range map[string]bool{"no number yet": false, "in progress": true} {
			t.Run(level+", "+what, func(t *testing.T) {
				d := fresh(t)
				d.mustClaim(t, fence("x", 5))
				holder := d.holds(t, fence("x", 5), "early")
				if inProgress {
					d.mustExec(t, `insert into list (resource, text) values ('other', 'later')`)
				}
				next := d.session(t)
				next.must("begin isolation level " + level)
				raised := next.blocked("select pawl.enter('x', '" + cell + "', 6)")
				if err := holder.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantEnd(t, raised, "40001")
				next.must("rollback")
				if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != guard.Token(5) {
					t.Errorf("the mark is %+v, %v", s, err)
				}

				// Repeated, it sees what the first did.
				next.must("begin isolation level "+level, "select pawl.enter('x', '"+cell+"', 6)")
				var text string
				if err := next.QueryRow(t.Context(), `select text from list where resource = 'x'`).Scan(&text); err != nil || text != "early" {
					t.Errorf("the next holder reads %q, %v", text, err)
				}
				next.must("commit")
			})
		}
	}
}

// Two cells that open one resource at once, with the same token: the mark is the
// first's, and nobody of the second is let in. Both have looked before there was one.
func TestConcurrentOpensOfTwoCells(t *testing.T) {
	d, first, second := naive(t)
	enter := func(cell string) string { return "select pawl.enter('new', '" + cell + "', 5)" }
	first.must(begin, enter(cell))
	second.must(begin)
	refused := second.blocked(enter("another"))
	first.must(commit)
	wantEnd(t, refused, "FE006")
	if s, err := d.guard.Seen(t.Context(), "new"); err != nil || s != (guard.State{Cell: cell, Seen: 5}) {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

// A claim is READ COMMITTED whatever the guard's level and the database's default:
// under a stricter one what others commit meanwhile would refuse it.
func TestClaimIsReadCommitted(t *testing.T) {
	setup := fresh(t)
	setup.mustExec(t, `create table raises (level text);
		create function note() returns trigger language plpgsql as
		$$ begin insert into public.raises values (current_setting('transaction_isolation')); return new; end $$;
		create trigger note before insert on pawl.guard for each row execute function note();
		alter database `+setup.Config().ConnConfig.Database+` set default_transaction_isolation = 'repeatable read'`)
	d := open(t, setup.dsn)
	for i, level := range []pgx.TxIsoLevel{"", pgx.RepeatableRead, pgx.Serializable} {
		resource := string(rune('a' + i))
		if err := d.guard.Isolation(level).Claim(t.Context(), fence(resource, 5)); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.count(t, `select count(*) from raises where level = 'read committed'`); n != 3 {
		t.Errorf("%d of 3 claims were read committed", n)
	}
}
