//go:build unix

package postgres

import "testing"

// The guide's rules for migrations and seeds on enforced tables hold. A change of the
// table passes. A write needs a fence, or a transaction of the table's own role that
// lifts the rule; no other transaction can write meanwhile.
func TestMigrations(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table ledger (id int primary key, n int); insert into ledger values (1, 1);
		select pawl.enforce('ledger', 'x')`)
	d.mustClaim(t, fence("x", 5))
	s, other := d.session(t), d.session(t)
	const seed = `insert into ledger values (1, 1) on conflict do nothing`

	s.must(`alter table ledger add column note text default 'none'`, `create index on ledger (n)`)
	s.refused("FE002", seed)
	s.must(begin, enter5, seed, commit)

	s.must(begin, `select pawl.relax('ledger')`, `update ledger set note = 'seen'`, `insert into ledger values (2, 2)`)
	end := other.blocked(seed)
	s.must(`select pawl.enforce('ledger', 'x')`, commit)
	wantEnd(t, end, "FE002")
	if n := d.count(t, `select count(*) from ledger where note = 'seen'`); n != 1 {
		t.Errorf("%d rows were changed, want 1", n)
	}
}
