//go:build unix

package postgres

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The guard's SQL as earlier versions had it.
var (
	//go:embed testdata/guard_v1.sql
	versionOne string
	//go:embed testdata/guard_v2.sql
	versionTwo string
	//go:embed testdata/guard_v3.sql
	versionThree string
)

// What the library of version 1 says. It granted as its SQL told others to.
const (
	oldEnter   = `begin; select pawl.enter(E'x', E'` + cell + `', 5, NULL)`
	oldReenter = `begin; select pawl.reenter(E'x', E'` + cell + `', 5, NULL)`
	oldZombie  = `select pawl.enter(E'x', E'` + cell + `', 4, NULL)`
	oldLock    = `select 1
		where case when pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.=) 'read committed'
			then pg_catalog.pg_try_advisory_xact_lock_shared(pawl.lock_key($1))
			else (pawl.enter($1, $2, $3, $4) is null) is not null end`
	oldUnderQuery = `select case when not g.watched then null
			when pg_catalog.current_setting('pawl.fence', true) operator(pg_catalog.<>) '' then pawl.pass($1)
			else pg_catalog.set_config('pawl.fence',
				array[pg_catalog.pg_current_xact_id()::pg_catalog.text, $1]::pg_catalog.text, true) end
		from pawl.guard g
		where g.resource operator(pg_catalog.=) $1 and g.cell operator(pg_catalog.=) $2 and g.token operator(pg_catalog.=) $3`
	oldOffset = `select pawl.move_offset(E'x', E'` + cell + `', 5, E'p', `
	oldGrant  = `grant usage on schema pawl to upgrade_writer; grant select on all tables in schema pawl to upgrade_writer;
		grant execute on all functions in schema pawl to upgrade_writer`
)

// old is a database with version 1 of the schema. A role without other rights installed
// it, and a writer that was granted access has worked in it: the mark of x is 5, the
// offset p is 1, and two tables are enforced.
type old struct {
	*database
	maker  *database
	writer string // its DSN
}

func versionOneOf(t *testing.T) old {
	t.Helper()
	d := bare(t)
	o := old{database: d, maker: open(t, d.asRole(t, "upgrade_maker")), writer: d.asRole(t, "upgrade_writer")}
	d.mustExec(t, `create schema pawl authorization upgrade_maker; create table each (id text);
		alter table list owner to upgrade_maker; alter table each owner to upgrade_maker`)
	m := d.as(t, strings.Replace(d.dsn, "user=postgres", "user=upgrade_maker", 1))
	m.must(begin, versionOne, commit, oldGrant,
		`grant all on list, each to upgrade_writer; grant all on sequence list_id_seq to upgrade_writer`,
		`select pawl.enforce('list', 'x')`, `select pawl.enforce_rows('each', 'id')`)
	w := d.as(t, o.writer)
	w.must(oldEnter, oldOffset+`0, 1, NULL)`, late, `insert into each values ('x')`, commit)
	return o
}

// Each earlier version brought up to date is, to the last function, what is made where
// nothing was.
func TestUpgradeMatchesFreshInstall(t *testing.T) {
	const catalog = `
		select 'function ' || pg_get_functiondef(p.oid) || coalesce(array_to_string(p.proacl, ','), '') from pg_proc p
			where p.pronamespace = 'pawl'::regnamespace
		union all select 'trigger ' || t.tgenabled::text || pg_get_triggerdef(t.oid) from pg_trigger t
			where t.tgrelid = 'pawl.guard'::regclass and not t.tgisinternal
		union all select 'constraint ' || k.conrelid::regclass || pg_get_constraintdef(k.oid) from pg_constraint k
			where k.connamespace = 'pawl'::regnamespace
		union all select concat_ws(' ', 'column', a.attrelid::regclass, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
				a.attnotnull, a.attcollation::regcollation, pg_get_expr(f.adbin, f.adrelid), col_description(a.attrelid, a.attnum))
			from pg_attribute a join pg_class c on c.oid = a.attrelid
			left join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
			where c.relnamespace = 'pawl'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
		union all select concat_ws(' ', 'relation', c.relname, c.reloptions, obj_description(c.oid, 'pg_class')) from pg_class c
			where c.relnamespace = 'pawl'::regnamespace
		order by 1`
	read := func(d *database) []string {
		rows, err := d.Query(t.Context(), catalog)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := read(fresh(t))
	for i, earlier := range []string{versionOne, versionTwo, versionThree} {
		upgraded := bare(t)
		upgraded.session(t).must(begin, earlier, `alter table pawl.guard disable trigger keep`, commit)
		before := read(upgraded)
		if err := upgraded.guard.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := read(upgraded)
		if slices.Equal(before, want) || len(want) < 30 {
			t.Fatalf("the catalogs tell nothing apart: %d entries", len(want))
		}
		for _, entry := range got {
			if !slices.Contains(want, entry) {
				t.Errorf("only where version %d was upgraded: %s", i+1, entry)
			}
		}
		for _, entry := range want {
			if !slices.Contains(got, entry) {
				t.Errorf("missing where version %d was upgraded: %s", i+1, entry)
			}
		}
	}
}

// A trigger that was made to hold under session_replication_role = replica, too, stays
// so.
func TestUpgradeLeavesStricterTriggersAlone(t *testing.T) {
	d := bare(t)
	d.session(t).must(begin, versionTwo, `alter table pawl.guard enable always trigger ratchet`, commit)
	if err := d.guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := d.count(t, `select count(*) from pg_trigger where tgrelid = 'pawl.guard'::regclass and tgname = 'ratchet' and tgenabled = 'A'`); n != 1 {
		t.Error("the trigger does not hold always any more")
	}
}

// Marks, offsets, rights and enforced tables stay, and programs with the library of
// version 1 go on, on the connections they have.
func TestUpgradeKeepsOldClients(t *testing.T) {
	o := versionOneOf(t)
	w := o.as(t, o.writer)
	for name, text := range map[string]string{"lock": oldLock, "look": oldUnderQuery} {
		if _, err := w.Prepare(t.Context(), name, text); err != nil {
			t.Fatal(err)
		}
	}
	offset := 1
	clients := func(when string) {
		t.Helper()
		w.must(oldEnter, late, commit, oldReenter, late, commit)
		if _, err := w.Exec(t.Context(), begin); err != nil {
			t.Fatal(err)
		}
		for _, quick := range [][]any{{"lock", "x", cell, int64(5), nil}, {"look", "x", cell, int64(5)}} {
			args := append([]any{pgx.QueryExecModeCacheStatement}, quick[1:]...)
			if tag, err := w.Exec(t.Context(), quick[0].(string), args...); err != nil || tag.RowsAffected() != 1 {
				t.Fatalf("%s: %q: %v, %v", when, quick[0], tag, err)
			}
		}
		w.must(late, `insert into each values ('x')`, commit)
		next := offset + 1
		w.must(begin, oldOffset+strconv.Itoa(offset)+", "+strconv.Itoa(next)+", NULL)", late, commit)
		offset = next
		w.must(`update list set text = 'late' where (select pawl.held('x', '`+cell+`', 5))`,
			`select pid, token from pawl.blockers(E'x')`, `select pawl.terminate_blockers(E'x', E'`+cell+`', 5)`)
		w.refused("FE001", oldZombie)
		w.refused("FE009", `select pawl.reenter(E'x', E'`+cell+`', 4, NULL)`)
		w.refused("FE006", `select pawl.enter(E'x', E'another', 9, NULL)`)
		w.refused("FE002", late)
		w.refused("FE002", `insert into each values ('x')`)
		if s, err := o.guard.Seen(t.Context(), "x"); err != nil || s != (guard.State{Cell: cell, Seen: 5}) {
			t.Errorf("%s the mark is %+v, %v", when, s, err)
		}
		if at, err := o.guard.OffsetOf(t.Context(), "x", "p"); err != nil || int(at) != offset {
			t.Errorf("%s the offset is %d, %v, want %d", when, at, err, offset)
		}
	}
	clients("before the upgrade")
	young := open(t, o.writer)
	wantForbidden(t, young.guard.Install(t.Context()), "bring it up to date")
	// A new library on version 1: all but what it has not.
	wantOnly(t, young.guard.Claim(t.Context(), fence("x", 5)), pgguard.ErrNotInstalled)
	young.mustAppend(t, fence("x", 5), "late")

	for range 2 {
		if err := o.maker.guard.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		clients("after it")
	}
	// The programs of version 1 find their guard installed, and would not set it back.
	if n := o.count(t, `select substring(obj_description('pawl.guard'::regclass, 'pg_class') from 'version ([0-9]+)')::int`); n < 2 {
		t.Errorf("the version is %d", n)
	}
	o.as(t, strings.Replace(o.dsn, "user=postgres", "user=upgrade_maker", 1)).refused("P0001", versionOne)

	// What is new needs to be granted.
	young.mustAppend(t, fence("x", 5), "late")
	wantForbidden(t, young.guard.Claim(t.Context(), fence("x", 6)), "permission denied for function claim", "pawl.admit", "again after an upgrade")
	o.wantMark(t, "x", 5)
	if err := o.maker.guard.Grant(t.Context(), "upgrade_writer"); err != nil {
		t.Fatal(err)
	}
	young.mustClaim(t, fence("x", 6))
	w.refused("FE001", oldEnter)
	w.must(`rollback`)
}

func wantForbidden(t *testing.T, err error, words ...string) {
	t.Helper()
	wantOnly(t, err, pgguard.ErrForbidden)
	for _, said := range words {
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v does not say %q", err, said)
		}
	}
}

// Holders work on while the guard is upgraded, none is failed or held up by it, nor is
// it by one that sleeps inside a transaction; and at no moment does an old token pass.
func TestUpgradeUnderRunningWriters(t *testing.T) {
	o := versionOneOf(t)
	before := o.count(t, `select count(*) from list`)
	asleep := o.as(t, o.writer)
	asleep.must(oldEnter)

	library := open(t, o.writer)
	simple := open(t, o.writer, func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	})
	byHand, zombie := o.as(t, o.writer), o.as(t, o.writer)
	var wrote [3]atomic.Int64
	var over atomic.Bool
	var writers sync.WaitGroup
	run := func(n *atomic.Int64, write func() error) {
		writers.Go(func() {
			for !over.Load() {
				if err := write(); err != nil {
					t.Errorf("a writer was told: %v", err)
					return
				}
				n.Add(1)
			}
		})
	}
	run(&wrote[0], func() error { return library.append(t.Context(), fence("x", 5), "a") })
	run(&wrote[1], func() error { return simple.append(t.Context(), fence("x", 5), "a") })
	run(&wrote[2], func() error { return byHand.try(oldReenter, late, commit) })
	var refused atomic.Int64
	writers.Go(func() {
		for !over.Load() {
			wantCode(t, zombie.try(begin, oldZombie), "FE001")
			if err := zombie.try(`rollback`); err != nil {
				t.Error(err)
				return
			}
			refused.Add(1)
		}
	})
	more := func(what string) {
		seen := [4]int64{wrote[0].Load(), wrote[1].Load(), wrote[2].Load(), refused.Load()}
		testwait.Until(t, bound, what, func() bool {
			return t.Failed() || wrote[0].Load() > seen[0] && wrote[1].Load() > seen[1] && wrote[2].Load() > seen[2] && refused.Load() > seen[3]
		})
	}
	more("writers at work")
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if err := o.maker.guard.Install(ctx); err != nil {
		t.Error(err)
	}
	more("writers at work after the upgrade")
	over.Store(true)
	writers.Wait()
	asleep.must(late, commit)
	o.maker.mustClaim(t, fence("x", 6))
	o.as(t, o.writer).refused("FE001", oldEnter)
	want := before + 1 + int(wrote[0].Load()+wrote[1].Load()+wrote[2].Load())
	if n := o.count(t, `select count(*) from list`); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}
