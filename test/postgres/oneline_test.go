//go:build unix

package postgres

import (
	"testing"
)

// Work of one statement, without BEGIN, in one round trip.
func TestOneStatement(t *testing.T) {
	const held5 = `(select pawl.held('x', '` + cell + `', 5))`
	for name, work := range map[string]string{
		"update":      `update list set text = 'changed' where text = 'early' and ` + held5,
		"insert":      `insert into list (resource, text) select 'x', 'late' where ` + held5,
		"delete":      `delete from list where ` + held5,
		"common":      `with g as materialized (select ` + held5 + `) update list set text = 'changed' where exists (select from g)`,
		"nothing hit": `update list set text = 'changed' where id = -1 and ` + held5,
	} {
		t.Run(name, func(t *testing.T) {
			d, old, next := naive(t)
			d.mustExec(t, `insert into list (resource, text) values ('x', 'early')`)
			d.mustExec(t, `select pawl.enforce('list', 'x')`)
			old.must(work)
			d.mustExec(t, `select pawl.relax('list')`)
			d.mustExec(t, `update list set text = 'early'`)
			d.mustExec(t, `select pawl.enforce('list', 'x')`)
			rows := d.count(t, `select count(*) from list where text = 'early'`)

			next.must(begin, enter6)
			end := old.blocked(work)
			next.must(commit)
			wantEnd(t, end, "FE001")
			if n := d.count(t, `select count(*) from list where text = 'early'`); n != rows {
				t.Errorf("%d rows are as they were, want %d", n, rows)
			}
			next.refused("FE005", `select pawl.held('x', '`+cell+`', 7)`)
			next.refused("FE005", `select pawl.held('unseen', '`+cell+`', 7)`)
			next.refused("FE006", `select pawl.held('x', 'another', 7)`)
			next.refused("FE002", `select pawl.held('x', '`+cell+`', null)`)
		})
	}
}

// The same with nothing but a row that is locked.
func TestOneStatementOnTheRow(t *testing.T) {
	d, old, next := naive(t)
	d.mustExec(t, `insert into list (resource, text) values ('x', 'early')`)
	const work = `with g as materialized (select 1 from mark where resource = 'x' and token = 5 for share)
		update list set text = 'late' where exists (select 1 from g)`
	next.must(begin, raise)
	end := old.blocked(work)
	next.must(commit)
	wantEnd(t, end, "")
	d.wantList(t, "x", "early")
}

// Under READ COMMITTED an equal fence writes nothing.
func TestEnterLetsReadOnlyIn(t *testing.T) {
	_, old, next := naive(t)
	old.must(`begin read only`, enter5, `select * from list`, commit)
	next.refused("25006", `begin read only`, enter6)
	next.must(`rollback`)
	old.must(begin, enter5, commit)
}
