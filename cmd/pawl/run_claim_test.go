package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/runner"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// Every guard that is named is claimed before the command starts, wherever its name comes
// from; with slots it is the line of the slot that was granted.
func TestRunClaimsBeforeCommandStarts(t *testing.T) {
	one, two := guardedFile(t), guardedFile(t)
	file := writeFile(t, "dsn", two+"\n")
	s := serve(t, "--store", "memory")
	for _, tc := range []struct {
		args []string
		env  string
	}{
		{args: []string{"run", "a", "--claim", one, "--claim", two}},
		{args: []string{"run", "a", "--claim", one, "--claim-file", file}},
		{args: []string{"run", "a", "--claim-file", writeFile(t, "other", one), "--claim-file", file}, env: "sqlite:/nowhere"},
		{args: []string{"elect", "a", "--claim", one, "--claim-file", file}},
		{args: []string{"run", "gpu", "--slots", "2", "--claim", one, "--claim", two}},
	} {
		cmd := s.command(append(tc.args, "--", "sh", "-c",
			`echo $PAWL_FENCE; for d in "$1" "$2"; do "$0" guard seen $PAWL_NAME --json --dsn "$d"; done`, os.Args[0], one, two)...)
		if tc.env != "" {
			cmd.Env = append(cmd.Env, "PAWL_CLAIM="+tc.env)
		}
		r := finish(t, cmd)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		if r.code != 0 || len(lines) != 3 {
			t.Errorf("%q: %+v", tc.args, r)
			continue
		}
		for _, line := range lines[1:] {
			if m := read[mark](t, line); m.FencingToken != lines[0] {
				t.Errorf("%q: under token %s a mark is %+v", tc.args, lines[0], m)
			}
		}
	}
}

// The variable names the database where no flag does. The command inherits it, since it was
// there before, and hears of no DSN otherwise.
func TestClaimVariable(t *testing.T) {
	dsn := guardedFile(t)
	s := serve(t, "--store", "memory")
	const script = `env | grep -c -F "$0"; echo "${PAWL_CLAIM-none}"`
	cmd := s.command("run", "a", "--", "sh", "-c", script, dsn)
	cmd.Env = append(cmd.Env, "PAWL_CLAIM="+dsn)
	if r := finish(t, cmd); r.code != 0 || r.stdout != "1\n"+dsn+"\n" {
		t.Errorf("by the variable: %+v", r)
	}
	if m := seenAt(t, dsn, "a"); m.FencingToken == "" {
		t.Error("nothing was claimed by the variable")
	}
	if r := s.pawl("run", "b", "--claim", dsn, "--", "sh", "-c", script, dsn); r.code != 0 || r.stdout != "0\nnone\n" {
		t.Errorf("by the flag: %+v", r)
	}
	if m := seenAt(t, dsn, "b"); m.FencingToken == "" {
		t.Error("nothing was claimed by the flag")
	}
}

// A guard that cannot be claimed keeps the command from starting, and the lease is released.
// The code is that of "pawl guard claim", whatever -E says.
func TestRunWhoseClaimFails(t *testing.T) {
	stale, bare := guardedFile(t), "sqlite:"+first(ledgerFile(t))
	foreign, locked := guardedFile(t), guardedFile(t)
	s := serve(t, "--store", "memory")
	cell := s.acquire("elsewhere").Cell
	want(t, 0, "guard", "claim", "a", "--token", guard.Max.String(), "--cell", cell, "--dsn", stale)
	want(t, 0, "guard", "claim", "a", "--token", "1", "--cell", "other", "--dsn", foreign)
	for _, tc := range []struct {
		dsn    string
		code   int
		reason string
		says   string
	}{
		{stale, exit.CodeLost, "not_claimed", "guard: stale fencing token"},
		{foreign, exit.CodeOther, "not_claimed", "another cell"},
		{bare, exit.CodeData, "not_claimed", "no guard"},
		{"sqlite:/no/such/file", exit.CodeUnavailable, "not_claimed", "no database /no/such/file"},
		{"mysql://root:secret@host/db", exit.CodeUsage, "usage", "--claim names no guard that is known here: expected postgres://"},
		{"s3://bucket/guards?path-style=true", exit.CodeUsage, "usage", "--claim names no guard that is known here: expected s3://BUCKET/PREFIX, with \"?endpoint=URL"},
		{"postgres://app:secret@127.0.0.1:1/db", exit.CodeUnavailable, "not_claimed", "127.0.0.1:1"},
	} {
		r, e := s.status("-E", "0", "--claim", locked, "--claim", tc.dsn, "--", "touch", "/no/such/folder/x")
		if r.code != tc.code || e.Code != tc.code || e.From != "pawl" || e.Reason != tc.reason || e.Child != nil {
			t.Errorf("--claim %s: ended with %d and said %+v", tc.dsn, r.code, e)
		}
		contains(t, r.stderr, tc.says)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("--claim %s: the password is printed: %s", tc.dsn, r.stderr)
		}
		if h := s.show("a").Holders; len(h) != 0 {
			t.Errorf("--claim %s: the lease stays behind: %+v", tc.dsn, h)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// A database that others keep busy longer than a claim waits.
func TestRunWhoseClaimIsInTheWayOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("waits as long as a claim does; make test does")
	}
	t.Parallel()
	path, db := ledgerFile(t)
	if err := sqlguard.New(db, sqlguard.SQLite()).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--store", "memory")
	r, e := s.status("-E", "0", "--claim", "sqlite:"+path, "--", "true")
	if r.code != exit.CodeNotAcquired || e.Reason != "not_claimed" {
		t.Errorf("it ended with %d and said %+v: %s", r.code, e, r.stderr)
	}
	contains(t, r.stderr, "busy", "the lease was released")
}

func TestRideFlags(t *testing.T) {
	dsn := guardedFile(t)
	s := serve(t, "--store", "memory")
	many := []string{"run", "a"}
	for range runner.DatabasesMax + 1 {
		many = append(many, "--claim", dsn)
	}
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"run", "a", "--ride-through", "1h"}, "--ride-through is given without one of --claim and --claims"},
		{[]string{"elect", "a", "--ride-through", "1h"}, "--ride-through is given without one of --claim and --claims"},
		{[]string{"run", "a", "--claims", "--ride-through", "0s"}, "--ride-through: the ride-through is 0s; more than 0 and at most 24h was expected"},
		{[]string{"run", "a", "--claims", "--ride-through", "25h"}, "at most 24h"},
		{[]string{"run", "a", "--claims", "--ride-through", "-1s"}, "more than 0"},
		{[]string{"run", "a", "--claims", "--ride-through"}, "--ride-through"},
		{[]string{"run", "a", "--claims", "--shared", "--ride-through", "1h"}, "both --ride-through and --shared are given"},
		{[]string{"run", "a", "--claim-file", "/no/such/file"}, "--claim-file: "},
		{many, "9 databases are to be claimed; expected at most 8"},
	} {
		r := s.want(exit.CodeUsage, append(tc.args, "--", "true")...)
		contains(t, r.stderr, tc.says)
	}
	for _, args := range [][]string{
		{"--claims", "--ride-through=1h"},
		{"--claim", dsn, "--ride-through=1h", "--ttl", "3s"},
		{"--claim", dsn, "--shared"},
		{"--claims", "--slots", "2", "--ride-through=1h"},
	} {
		s.want(0, append(append([]string{"run", "b-" + strings.Join(args[2:], "")}, args...), "--", "true")...)
	}
	// What a take-over would do to a command is no matter of one that rides.
	if r := s.want(0, "run", "c", "--claims", "--ride-through=1h", "--ttl", "3s", "--", "true"); r.stderr != "" {
		t.Errorf("it says %q", r.stderr)
	}
}
