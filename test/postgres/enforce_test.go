//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// C85. TestEnforce goes through the ways in which SQL writes a table: without a fence
// each is refused, under the right one each passes.
func TestEnforce(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table parent (id int primary key);
		create table orders (id int primary key, parent int references parent on delete cascade on update cascade, n int);
		create view orders_view as select * from orders;
		create table source (id int, n int);
		insert into parent select generate_series(1, 9);
		insert into orders select i, i, 0 from generate_series(1, 9) i;
		insert into source values (1, 1), (100, 1)`)
	for table, resource := range map[string]string{"orders": "x", "list": "other"} {
		if err := d.guard.Enforce(t.Context(), table, pgguard.Rule{Resource: resource}); err != nil {
			t.Fatal(err)
		}
	}
	d.mustClaim(t, fence("x", 5))
	d.mustClaim(t, fence("other", 5))
	d.mustClaim(t, fence("unwatched", 5))
	s := d.session(t)
	s.must(`prepare p as update orders set n = 1 where id = $1`)
	for name, write := range map[string]string{
		"insert":          `insert into orders values (10, 1, 0)`,
		"insert nothing":  `insert into orders select 1, 1, 0 where false`,
		"update":          `update orders set n = 1 where id = 2`,
		"update nothing":  `update orders set n = 1 where id = -1`,
		"delete":          `delete from orders where id = 2`,
		"truncate":        `truncate orders`,
		"truncate parent": `truncate parent cascade`,
		"upsert":          `insert into orders values (1, 1, 0) on conflict (id) do update set n = 2`,
		"do nothing":      `insert into orders values (1, 1, 0) on conflict do nothing`,
		"merge": `merge into orders o using source s on o.id = s.id when matched then update set n = s.n
			when not matched then insert values (s.id, 1, s.n)`,
		"writable CTE":     `with gone as (delete from orders where id = 3 returning *) select * from gone`,
		"view":             `update orders_view set n = 3 where id = 1`,
		"cascaded delete":  `delete from parent where id = 4`,
		"cascaded update":  `update parent set id = 50 where id = 5`,
		"copy":             `copy orders from program 'echo 11,1,0' csv`,
		"do block":         `do $$ begin update orders set n = 9; end $$`,
		"prepared":         `execute p(1)`,
		"current of":       `declare c cursor for select * from orders for update; move c; update orders set n = 4 where current of c`,
		"for no key, then": `select * from orders for no key update; update orders set n = 7 where id = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.refused("FE002", begin, write)
			s.must(`rollback`)
			s.refused("FE004", begin, `select pawl.enter('other', '`+cell+`', 5)`, write)
			s.must(`rollback`)
			s.refused("FE002", begin, `select pawl.enter('unwatched', '`+cell+`', 5)`, write)
			s.must(`rollback`)
			s.must(begin, enter5, write, `rollback`)
			s.must(begin, `select pawl.enter('other', '`+cell+`', 5)`, enter5, write, `rollback`)
			s.must(begin, enter5, `select pawl.enter('other', '`+cell+`', 5)`, write, `rollback`)
		})
	}
	s.t = t
	s.must(`select * from orders`, `insert into parent values (77)`)

	// What was refused is not there, and what passed in a rule is.
	if n := d.count(t, `select count(*) from orders where n = 0`); n != 9 {
		t.Errorf("%d rows are as they were, want 9", n)
	}
	d.mustClaim(t, fence("x", 6))
	s.refused("FE001", begin, enter5)
	s.must(`rollback`)
	if err := d.guard.Relax(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	s.must(`update orders set n = 8`)
}

// A setting that outlived its transaction, in a pooled connection for instance, is no
// fence.
func TestEnforceSeesALeak(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `select pawl.enforce('list', 'x')`)
	s := d.session(t)
	s.must(begin, enter5, `do $$ begin perform set_config('pawl.fence', current_setting('pawl.fence'), false); end $$`, commit)
	s.refused("FE003", late)
	s.must(begin, enter5, late, commit)
	s.refused("FE003", late)
	s.must(`reset all`)
	s.refused("FE002", late)
	s.must(begin, enter5, commit)
	s.refused("FE002", late) // the setting is now '' and not NULL
}

// Names may hold whatever an array's text uses, and the number of a transaction.
func TestEnforceOddNames(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table other (n int); select pawl.enforce('other', 'other')`)
	for _, name := range []string{`a b`, `{}`, `"`, `\`, `,`, `NULL`, `'`, `%s`, "é\U0001F512", "slots\u001f1", `1`, strings.Repeat("n", 518)} {
		if err := d.guard.Enforce(t.Context(), "list", pgguard.Rule{Resource: name}); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := d.append(t.Context(), fence(name, 1), "a"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		wantCode(t, d.append(t.Context(), fence("other", 1), "a"), pgguard.CodeOtherResource)
	}
	d.session(t).refused("FE004", begin, `select pawl.enforce('list', pg_current_xact_id()::text)`,
		`select pawl.enter('other', '`+cell+`', 1)`, late)
}

// Rows of many resources in one table.
func TestEnforceRows(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table stock (tenant text, n int); insert into stock values ('a', 1), ('b', 1), (null, 1)`)
	if err := d.guard.Enforce(t.Context(), "stock", pgguard.Rule{Column: "tenant", Prefix: "stock/"}); err != nil {
		t.Fatal(err)
	}
	s := d.session(t)
	enterA := `select pawl.enter('stock/a', '` + cell + `', 5)`
	enterB := `select pawl.enter('stock/b', '` + cell + `', 5)`
	for write, want := range map[string]string{
		`insert into stock values ('a', 2)`:                                              "",
		`insert into stock values ('a', 2), ('b', 2)`:                                    "FE004",
		`insert into stock values (null, 2)`:                                             "FE004",
		`update stock set n = 3 where tenant = 'a'`:                                      "",
		`update stock set n = 3`:                                                         "FE004",
		`update stock set tenant = 'b' where tenant = 'a'`:                               "FE004",
		`update stock set tenant = 'a' where tenant = 'b'`:                               "FE004",
		`delete from stock where tenant = 'a'`:                                           "",
		`delete from stock where tenant = 'b'`:                                           "FE004",
		`delete from stock where tenant is null`:                                         "FE004",
		`truncate stock`:                                                                 "FE004",
		`copy stock from program 'printf "b\t1\n"'`:                                      "FE004",
		`merge into stock using (values (1)) v on tenant = 'b' when matched then delete`: "FE004",
	} {
		s.refused("FE002", begin, write)
		s.must(`rollback`)
		if want == "" {
			s.must(begin, enterA, write, `rollback`)
		} else {
			s.refused(want, begin, enterA, write)
			s.must(`rollback`)
		}
	}
	s.must(begin, enterA, enterB, `update stock set tenant = 'b' where tenant = 'a'`, `rollback`)

	err := d.guard.Enforce(t.Context(), "stock", pgguard.Rule{Column: "nothing"})
	wantCode(t, err, "42703")
	s.refused("FE002", `update stock set n = 3 where tenant = 'a'`) // the rule before still holds
}

// A statement's trigger belongs to the table that the statement names.
func TestEnforcePartitions(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create schema "App"; create table "App"."Events" (at int, tenant text) partition by range (at);
		create table low partition of "App"."Events" for values from (0) to (10);
		create table base (n int); create table derived () inherits (base)`)
	s := d.session(t)
	for _, rule := range []pgguard.Rule{{Resource: "x"}, {Column: "tenant"}} {
		if err := d.guard.Enforce(t.Context(), `"App"."Events"`, rule); err != nil {
			t.Fatal(err)
		}
		for _, write := range []string{`insert into "App"."Events" values (1, 'x')`, `insert into low values (1, 'x')`} {
			s.refused("FE002", write)
			s.must(begin, enter5, write, `rollback`)
		}
		d.mustExec(t, `create table high partition of "App"."Events" for values from (10) to (20)`)
		s.must(`insert into high values (11, 'x')`) // as documented, until …
		if err := d.guard.Enforce(t.Context(), `"App"."Events"`, rule); err != nil {
			t.Fatal(err)
		}
		s.refused("FE002", `insert into high values (11, 'x')`)
		d.mustExec(t, `drop table high`)
	}
	if err := d.guard.Enforce(t.Context(), "base", pgguard.Rule{Resource: "x"}); err != nil {
		t.Fatal(err)
	}
	s.refused("FE002", `insert into derived values (1)`)
	s.refused("FE002", `update base set n = 2`)
}

// A replica's role and a restore that disables triggers get past a trigger, but not past
// one that is ENABLE ALWAYS.
func TestEnforceAlways(t *testing.T) {
	d := fresh(t)
	s := d.session(t)
	s.must(`set session_replication_role = replica`)
	for _, r := range []pgguard.Rule{{Resource: "x"}, {Column: "resource"}} {
		if err := d.guard.Enforce(t.Context(), "list", r); err != nil {
			t.Fatal(err)
		}
		s.must(late)
		r.Always = true
		if err := d.guard.Enforce(t.Context(), "list", r); err != nil {
			t.Fatal(err)
		}
		s.refused("FE002", late)
		s.must(begin, enter5, late, commit)
	}
}

// TestEnforceForgery shows what the guard is no protection against: it is for
// accidents, not for attackers.
func TestEnforceForgery(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `select pawl.enforce('list', 'x')`)
	s := d.session(t)
	s.must(begin, `select set_config('pawl.fence', array[pg_current_xact_id()::text, 'x']::text, true)`, late, commit)
	s.must(`alter table list disable trigger pawl_guard`, late)
	d.wantList(t, "x", "late", "late")
}

func TestEnforceRefusesInvalidRule(t *testing.T) {
	d := fresh(t)
	for _, r := range []pgguard.Rule{{}, {Resource: "x", Column: "resource"}} {
		wantOnly(t, d.guard.Enforce(t.Context(), "list", r), guard.ErrMalformed)
	}
	for _, table := range []string{"", "nothing"} {
		if err := d.guard.Enforce(t.Context(), table, pgguard.Rule{Resource: "x"}); err == nil {
			t.Errorf("table %q: no error", table)
		}
	}
}

// What InTx does passes, in one round trip as well.
func TestLibraryUnderEnforce(t *testing.T) {
	d := fresh(t)
	if err := d.guard.Enforce(t.Context(), "list", pgguard.Rule{Column: "resource"}); err != nil {
		t.Fatal(err)
	}
	if err := d.append(t.Context(), fence("a b", 1), "a"); err != nil {
		t.Fatal(err)
	}
	err := d.guard.InTx(t.Context(), fence("a", 1), func(tx pgx.Tx) error {
		if err := d.guard.Enter(t.Context(), tx, fence("b", 1)); err != nil {
			return err
		}
		_, err := tx.CopyFrom(t.Context(), pgx.Identifier{"list"}, []string{"resource", "text"},
			pgx.CopyFromRows([][]any{{"a", "1"}, {"b", "2"}}))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	d.wantList(t, "b", "2")
	err = d.guard.InTx(t.Context(), fence("a", 1), func(tx pgx.Tx) error { return add(t.Context(), tx, "b", "3") })
	wantCode(t, err, pgguard.CodeOtherResource)
	wantNone(t, err)
}

// Where nothing is enforced enter leaves nothing behind, not even a transaction number;
// from the first Enforce on it does, also for a mark that is raised at that moment.
func TestWatched(t *testing.T) {
	d, old, next := naive(t)
	d.mustExec(t, `create table source (n int)`)
	const nothingLeft = `do $$ begin if coalesce(current_setting('pawl.fence', true), '') <> ''
		or pg_current_xact_id_if_assigned() is not null then raise 'something is left'; end if; end $$`
	old.must(begin, enter5, nothingLeft, commit)

	// Raised while it is enforced: the frequent case afterwards leaves its setting.
	enterY := `select pawl.enter('y', '` + cell + `', 6)`
	old.must(begin, `select pawl.enforce('source', 'y')`)
	next.must(begin)
	end := next.blocked(enterY)
	old.must(commit)
	wantEnd(t, end, "")
	next.must(commit, begin, enterY, `insert into source values (1)`, commit)
	old.must(begin, enter5, nothingLeft, commit)

	inside := d.session(t)
	inside.must(begin, enter5)
	old.must(`select pawl.enforce('list', 'x')`)
	inside.refused("FE002", late) // as documented
	inside.must(`rollback`)
	for range 2 {
		old.must(begin, enter5, late, commit)
	}
	old.must(begin, enter6, late, commit)
	old.must(`select pawl.relax('list')`)
	d.mustClaim(t, fence("x", 7))
	old.must(begin, `select pawl.enter('x', '`+cell+`', 7)`, nothingLeft, commit)
}

// A mark that is opened by a snapshot older than the rule is watched all the same.
//
//  1. Enforce has made its triggers, and has not committed.
//  2. A transaction with a snapshot from before opens the resource, and waits for it.
//  3. Enforce commits, and the other after it.
func TestWatchedUnderAnOldSnapshot(t *testing.T) {
	d, rule, next := naive(t)
	d.mustExec(t, `create table source (n int)`)
	enterY := `select pawl.enter('y', '` + cell + `', 6)`
	rule.must(begin, `select pawl.enforce('source', 'y')`)
	next.must(beginRepeatable, `select 1`)
	end := next.blocked(enterY)
	rule.must(commit)
	wantEnd(t, end, "")
	next.must(commit, begin, enterY, `insert into source values (1)`, commit)
}
