//go:build unix

package postgres

import (
	"strings"
	"sync"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// asRole is the connection string of another role, which it makes.
func (d *database) asRole(t *testing.T, role string) string {
	t.Helper()
	d.mustExec(t, `do $$ begin create role `+role+` login; exception when duplicate_object then null; end $$`)
	return strings.Replace(d.dsn, "user=postgres", "user="+role, 1)
}

func TestConcurrentInstalls(t *testing.T) {
	d := bare(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := d.guard.Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d.mustClaim(t, fence("x", 8))
	if err := d.guard.Install(t.Context()); err != nil {
		t.Error(err)
	}
	d.session(t).must(begin, pgguard.DDL(), commit)
	wantOnly(t, d.guard.Claim(t.Context(), fence("x", 7)), guard.ErrStale)
}

// A newer one is left alone, an older one replaced.
func TestInstallOfAnotherVersion(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `comment on table pawl.guard is 'pawl guard, version 99'`)
	if err := d.guard.Install(t.Context()); err != nil {
		t.Error(err)
	}
	d.session(t).refused("P0001", pgguard.DDL())

	d.mustExec(t, `comment on table pawl.guard is 'pawl guard, version 0'; drop function pawl.held`)
	if err := d.guard.Install(t.Context()); err != nil {
		t.Error(err)
	}
	d.session(t).refused("FE005", `select pawl.held('x', 'cell', 1)`)
}

func TestInstallWithoutRights(t *testing.T) {
	d := bare(t)
	writer := open(t, d.asRole(t, "install_writer"))
	wantOnly(t, writer.guard.Install(t.Context()), pgguard.ErrForbidden)
	wantOnly(t, writer.guard.Claim(t.Context(), fence("x", 7)), pgguard.ErrNotInstalled)
	_, err := writer.guard.Seen(t.Context(), "x")
	wantOnly(t, err, pgguard.ErrNotInstalled)
	_, err = writer.guard.OffsetOf(t.Context(), "x", "p")
	wantOnly(t, err, pgguard.ErrNotInstalled)

	// A schema made for the role is enough.
	d.mustExec(t, `create schema pawl authorization install_writer`)
	if err := writer.guard.Install(t.Context()); err != nil {
		t.Error(err)
	}
	writer.mustClaim(t, fence("x", 7))
}

// A role that may make a schema could make the guard's before a role with more rights
// installs it, and would own what runs with those rights.
func TestInstallRefusesForeignSchema(t *testing.T) {
	for name, plant := range map[string]string{
		"the schema":    `create schema pawl authorization planter`,
		"a table of it": `create schema pawl; create table pawl.guard_offset (); alter table pawl.guard_offset owner to planter`,
		"a function":    `create schema pawl; create function pawl.pass(resource text) returns text language sql as $$ select '' $$; alter function pawl.pass owner to planter`,
	} {
		d := bare(t)
		d.asRole(t, "planter")
		d.mustExec(t, plant)
		s := d.session(t)
		s.refused("42501", pgguard.DDL())
		if err := d.guard.Install(t.Context()); err == nil {
			t.Errorf("%s was planted, and the guard is installed", name)
		}
		d.mustExec(t, `drop schema pawl cascade`)
		if err := d.guard.Install(t.Context()); err != nil {
			t.Errorf("%s was planted and dropped: %v", name, err)
		}
	}
}

// A role needs to be let in, can then enter and look, and cannot move a mark in any
// other way.
func TestWriterRole(t *testing.T) {
	d := fresh(t)
	dsn := d.asRole(t, "granted_writer")
	writer := open(t, dsn)
	d.mustExec(t, `grant all on list to granted_writer; grant all on sequence list_id_seq to granted_writer`)
	if err := d.guard.Enforce(t.Context(), "list", pgguard.Rule{Resource: "x"}); err != nil {
		t.Fatal(err)
	}
	d.mustExec(t, `create table rows (tenant text); grant all on rows to granted_writer`)
	if err := d.guard.Enforce(t.Context(), "rows", pgguard.Rule{Column: "tenant"}); err != nil {
		t.Fatal(err)
	}
	s := d.as(t, dsn)
	wantOnly(t, writer.guard.Claim(t.Context(), fence("x", 7)), pgguard.ErrForbidden)
	s.refused("FE002", late) // the same answer as for others
	s.refused("FE002", `insert into rows values ('x')`)
	if err := writer.guard.Install(t.Context()); err != nil {
		t.Errorf("install where it is installed: %v", err)
	}

	if err := d.guard.Grant(t.Context(), "granted_writer"); err != nil {
		t.Fatal(err)
	}
	writer.mustClaim(t, fence("x", 7))
	if err := writer.append(t.Context(), fence("x", 7), "a"); err != nil {
		t.Error(err)
	}
	if s, err := writer.guard.Seen(t.Context(), "x"); err != nil || s != (guard.State{Cell: cell, Seen: 7}) {
		t.Errorf("the mark is %+v, %v", s, err)
	}
	if b, err := writer.guard.Blockers(t.Context(), "x"); err != nil || len(b) != 0 {
		t.Errorf("blockers: %+v, %v", b, err)
	}
	for _, write := range []string{
		`update pawl.guard set token = 9`, `delete from pawl.guard`, `insert into pawl.guard values ('y', 'c', 1)`,
		`update pawl.guard_offset set seq = 9`, `select * from pawl.guard for update`,
		`alter table list disable trigger pawl_guard`, `select pawl.relax('list')`, `select pawl.admit('granted_writer')`, `set session_replication_role = replica`,
	} {
		s.refused("42501", write)
	}
}

// The schema and its tables may be shown to a role that is not let in, for a dashboard.
func TestReadRightDoesNotRaise(t *testing.T) {
	d := fresh(t)
	dsn := d.asRole(t, "looker")
	d.mustClaim(t, fence("x", 5))
	d.mustExec(t, `grant usage on schema pawl to looker; grant select on pawl.guard, pawl.guard_offset to looker`)
	s := d.as(t, dsn)
	s.must(`select * from pawl.guard`)
	for _, call := range []string{
		`claim('x', '` + cell + `', 6)`, `enter('x', '` + cell + `', 6)`, `held('x', '` + cell + `', 5)`,
		`move_offset('x', '` + cell + `', 6, 'p', 0, 1)`, `watch()`, `admit('looker')`,
	} {
		s.refused("42501", `select pawl.`+call)
	}
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 5 {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

// The functions run with their owner's rights and must not find anything that the caller
// put in the way.
func TestFunctionsIgnoreCallersSearchPath(t *testing.T) {
	d := fresh(t)
	dsn := d.asRole(t, "tricky_writer")
	if err := d.guard.Grant(t.Context(), "tricky_writer"); err != nil {
		t.Fatal(err)
	}
	s := d.as(t, dsn)
	d.mustExec(t, `create schema trap authorization tricky_writer`)
	for _, kind := range []string{"text", "bigint", "anyarray"} {
		s.must(`create function trap.led(` + kind + `, ` + kind + `) returns boolean language plpgsql as
			$$ begin raise exception 'led, as %', current_user; end $$`)
		for _, operator := range []string{"=", "<>", "<", ">", ">="} {
			s.must(`create operator trap.` + operator + ` (leftarg = ` + kind + `, rightarg = ` + kind + `, procedure = trap.led)`)
		}
	}
	s.must(
		`create function trap.or(bigint, bigint) returns bigint language plpgsql as $$ begin raise exception 'led'; end $$`,
		`create operator trap.| (leftarg = bigint, rightarg = bigint, procedure = trap.or)`,
		`create function trap.pg_try_advisory_xact_lock_shared(bigint) returns boolean language sql as 'select true'`,
		`create collation trap."C" from "POSIX"`,
		`create temp table guard (resource text, cell text, token bigint)`,
		`set search_path = trap, pg_temp, pg_catalog`)
	for range 2 { // to raise, and as the frequent case
		s.must(begin, `select pawl.claim('x', '`+cell+`', 5)`, enter5, `select pawl.held('x', '`+cell+`', 5)`, `select pawl.enter('y', '`+cell+`', 5)`,
			`select pawl.reenter('x', '`+cell+`', 5)`, commit, begin, `select pawl.reenter('x', '`+cell+`', 5)`, commit)
	}
	s.must(`select pawl.move_offset('x', '`+cell+`', 5, 'p', 0, 1)`, `select pawl.watch('x')`)
	s.refused("FE006", `select pawl.enter('x', 'another', 5)`)
	if n := d.count(t, `select count(*) from pg_proc where pronamespace = 'pawl'::regnamespace and prosecdef
		and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)`); n != 0 {
		t.Errorf("%d functions with their owner's rights go by the caller's search_path", n)
	}
}

// Deleting or lowering a mark by hand opens the door to an old holder, so it takes more
// than a statement.
func TestTableKeepsItself(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("x", 8))
	s := d.session(t)
	for _, write := range []string{
		`delete from pawl.guard`, `truncate pawl.guard`,
		`update pawl.guard set token = 7`, `update pawl.guard set cell = 'c'`, `update pawl.guard set resource = 'y'`,
		`insert into pawl.guard values ('y', 'c', 0)`, `insert into pawl.guard values ('y', 'c', 9007199254740992)`,
		`insert into pawl.guard values ('y', '', 7)`,
	} {
		s.refused("23514", write)
	}
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s != (guard.State{Cell: cell, Seen: 8}) {
		t.Errorf("the mark is %+v, %v", s, err)
	}

	// The documented way to hand the database over to another cell.
	s.must(begin, `alter table pawl.guard disable trigger keep`, `delete from pawl.guard`,
		`alter table pawl.guard enable trigger keep`, commit)
	other := fence("x", 1)
	other.Cell = "another"
	d.mustClaim(t, other)
}

// Where somebody else's trigger swallows the mark, the answer is an error and no
// verdict.
func TestIgnoredMark(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create function swallow() returns trigger language plpgsql as $$ begin return null; end $$;
		create trigger swallow before insert or update on pawl.guard for each row execute function swallow()`)
	for range 2 {
		err := d.append(t.Context(), fence("x", 7), "a")
		wantCode(t, err, "55000")
		wantNone(t, err)
		d.mustExec(t, `alter table pawl.guard disable trigger swallow; insert into pawl.guard values ('x', '`+cell+`', 6)
			on conflict do nothing; alter table pawl.guard enable trigger swallow`)
	}
	d.wantList(t, "x")
}

// Functions called by hand have the same bounds.
func TestSQLFunctionsCheckBounds(t *testing.T) {
	s := fresh(t).session(t)
	for call, want := range map[string]string{
		`enter('x', 'c', 0)`:                           "FE002",
		`enter('x', 'c', null)`:                        "FE002",
		`enter('x', 'c', -1)`:                          "FE007",
		`enter('x', 'c', 9007199254740992)`:            "FE007",
		`enter('', 'c', 1)`:                            "FE007",
		`enter(null, 'c', 1)`:                          "FE007",
		`enter('x', '', 1)`:                            "FE007",
		`enter('x', null, 1)`:                          "FE007",
		`enter(repeat('n', 519), 'c', 1)`:              "FE007",
		`enter('x', repeat('n', 256), 1)`:              "FE007",
		`held('x', 'c', -1)`:                           "FE007",
		`move_offset('x', 'c', 1, '', 0, 1)`:           "FE002",
		`move_offset('x', 'c', 1, 'p', 1, 1)`:          "FE007",
		`move_offset('x', 'c', 1, 'p', -1, 1)`:         "FE007",
		`move_offset('x', 'c', 1, 'p', null, 1)`:       "FE007",
		`move_offset('x', 'c', 0, 'p', 0, 1)`:          "FE002",
		`enforce('pawl.guard_offset', '')`:             "FE007",
		`enforce_rows('pawl.guard_offset', 'nothing')`: "42703",
	} {
		s.refused(want, `select pawl.`+call)
	}
}
