//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard/pgguard"
)

// A partition and a table that inherits are written through their parents, a view has no
// rows. Nothing is enforced there that would not hold, and what was enforced before
// stays.
func TestEnforceRefusesPartitionsAndViews(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table events (at int, tenant text) partition by range (at);
		create table low partition of events for values from (0) to (10);
		create table base (n int, tenant text); create table derived () inherits (base);
		create view seen as select * from base; create materialized view kept as select 1 as n, 'a' as tenant;
		create sequence numbers`)
	for _, rule := range []pgguard.Rule{{Resource: "x"}, {Column: "tenant"}} {
		for _, table := range []string{"low", "derived", "seen", "kept", "numbers"} {
			wantCode(t, d.guard.Enforce(t.Context(), table, rule), "42809")
		}
		for _, table := range []string{"events", "base"} {
			if err := d.guard.Enforce(t.Context(), table, rule); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, d.guard.Enforce(t.Context(), "low", rule), "42809")
		s := d.session(t)
		for _, write := range []string{`insert into events values (1, 'x')`, `insert into low values (1, 'x')`, `update base set n = 1`, `delete from derived`} {
			s.refused("FE002", write)
		}
	}
}

// A partition of a partition is a table that a statement may name.
func TestEnforceCoversNestedPartitions(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table events (at int, tenant text) partition by range (at);
		create table low partition of events for values from (0) to (10) partition by range (at);
		create table lowest partition of low for values from (0) to (5);
		create table base (n int, tenant text); create table derived () inherits (base); create table last () inherits (derived)`)
	s := d.session(t)
	for _, rule := range []pgguard.Rule{{Resource: "x"}, {Column: "tenant"}} {
		for _, table := range []string{"events", "base"} {
			if err := d.guard.Enforce(t.Context(), table, rule); err != nil {
				t.Fatal(err)
			}
		}
		for _, write := range []string{`insert into lowest values (1, 'x')`, `insert into last values (1, 'x')`} {
			s.refused("FE002", write)
			s.must(begin, enter5, write, `rollback`)
		}
	}
	for _, table := range []string{"events", "base"} {
		if err := d.guard.Relax(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	s.must(`insert into lowest values (1, 'x')`, `insert into last values (1, 'x')`)
}

// What a value looks like as text, and which texts are the same, is no matter of the
// session or the column. With a holder for each of two spellings of one row, both could
// write it.
func TestRowNamesDoNotDependOnSession(t *testing.T) {
	d := fresh(t)
	for kind, x := range map[string]struct {
		set, value, resource, other string
	}{
		"date":               {`set datestyle = 'German'`, `'2026-02-01'`, `2026-02-01`, `01.02.2026`},
		"timestamptz":        {`set timezone = 'Asia/Tokyo'`, `'2026-02-01 00:00:00Z'`, `2026-02-01 00:00:00+00`, `2026-02-01 09:00:00+09`},
		"interval":           {`set intervalstyle = 'iso_8601'`, `'1 day'`, `1 day`, `P1D`},
		"bytea":              {`set bytea_output = 'escape'`, `'abc'`, `\x616263`, `abc`},
		"float8":             {`set extra_float_digits = -10`, `0.10000000000001`, `0.10000000000001`, `0.1`},
		"regclass":           {`set quote_all_identifiers = on`, `'list'`, `public.list`, `"public"."list"`},
		"text collate loose": {``, `'ABC'`, `ABC`, `abc`},
	} {
		t.Run(kind, func(t *testing.T) {
			if strings.Contains(kind, "loose") {
				d.mustExec(t, `create collation loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
			}
			d.mustExec(t, `drop table if exists odd; create table odd (k `+kind+`, n int); insert into odd values (`+x.value+`, 1)`)
			if err := d.guard.Enforce(t.Context(), "odd", pgguard.Rule{Column: "k", Prefix: "odd/"}); err != nil {
				t.Fatal(err)
			}
			s := d.session(t)
			enter := func(resource string) string { return `select pawl.enter('odd/` + resource + `', '` + cell + `', 5)` }
			if x.set != "" {
				s.must(x.set)
			}
			s.must(begin, enter(x.resource), `update odd set n = 2`, commit)
			s.refused("FE004", begin, enter(x.other), `update odd set n = 3`)
			s.must(`rollback`)
		})
	}
}
