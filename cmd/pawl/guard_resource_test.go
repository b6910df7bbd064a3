package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// guardedFile is a SQLite database with a guard; its DSN.
func guardedFile(t *testing.T) string {
	t.Helper()
	path, db := ledgerFile(t)
	if err := sqlguard.New(db, sqlguard.SQLite()).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + path
}

// seenAt reads a mark with further arguments.
func seenAt(t *testing.T, dsn string, args ...string) mark {
	t.Helper()
	return read[mark](t, want(t, 0, append([]string{"guard", "seen", "--json", "--dsn", dsn}, args...)...).stdout)
}

// A claim under slots claims the slot that was granted: the holder of another
// slot goes on.
func TestGuardClaimUnderSlots(t *testing.T) {
	dsn := guardedFile(t)
	s := serve(t, "--store", "memory")
	first := s.acquire("gpu", "--ttl", "1h", "--slots", "2")
	want(t, 0, "guard", "claim", "gpu", "--slot", "1", "--token", first.Fence, "--cell", first.Cell, "--dsn", dsn)

	shell := func(script string) result {
		cmd := s.command("run", "gpu", "--slots", "2", "--lock-delay", "0s", "--", "sh", "-c", script)
		cmd.Env = append(cmd.Env, "PAWL_DSN="+dsn, "PAWL="+os.Args[0])
		return finish(t, cmd)
	}
	r := shell(`"$PAWL" guard claim gpu && "$PAWL" guard seen gpu && "$PAWL" guard seen gpu --json`)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != 0 || len(lines) != 4 || !strings.Contains(lines[0], "slot 2 of gpu") || !strings.Contains(lines[2], "slot 2 of gpu") {
		t.Fatalf("under the second slot: %+v", r)
	}
	claimed := read[mark](t, lines[3])
	if claimed.Resource != "gpu\x1f2" || claimed.FencingToken <= first.Fence {
		t.Errorf("it claimed %+v", claimed)
	}
	if m := seenAt(t, dsn, "gpu", "--slot", "2"); m != claimed {
		t.Errorf("from outside slot 2 shows %+v, expected %+v", m, claimed)
	}
	if m := seenAt(t, dsn, "gpu"); m.FencingToken != "" {
		t.Errorf("the line of the bare name was raised: %+v", m)
	}
	// The healthy holder of slot 1 is not stale.
	want(t, 0, "guard", "claim", "gpu", "--slot", "1", "--token", first.Fence, "--cell", first.Cell, "--dsn", dsn)
	for _, foreign := range []string{"--slot 1", "--slot 0"} {
		r := shell(`"$PAWL" guard claim gpu ` + foreign)
		if r.code != exit.CodeUsage {
			t.Errorf("a claim of %s under slot 2: %+v", foreign, r)
		}
		contains(t, r.stderr, "a lease of slot 2 of gpu", "--other-resource")
	}
	// A token that is spelled out is the slot's, too.
	r = shell(`"$PAWL" guard claim gpu --token "$PAWL_FENCE" --json`)
	if m := read[mark](t, r.stdout); r.code != 0 || m.Resource != "gpu\x1f2" {
		t.Errorf("with --token: %+v", r)
	}
	// What the line is called in the environment is as good as the name.
	r = shell(`"$PAWL" guard claim "$PAWL_RESOURCE" --json`)
	if m := read[mark](t, r.stdout); r.code != 0 || m.Resource != "gpu\x1f2" {
		t.Errorf("of $PAWL_RESOURCE: %+v", r)
	}
	want(t, exit.CodeUsage, "guard", "seen", "gpu", "--slot", "-1", "--dsn", dsn)
}

// The token of one lease is not shown to the resource of another name, unless
// that is said.
func TestGuardClaimForOtherNameIsRefused(t *testing.T) {
	dsn := guardedFile(t)
	want(t, 0, "guard", "claim", "accounts2", "--token", "7", "--cell", "c", "--dsn", dsn)
	claim := func(args ...string) result {
		cmd := command(t, append([]string{"guard", "claim", "accounts2", "--dsn", dsn}, args...)...)
		cmd.Env = append(cmd.Env, nameEnv+"=report", slotEnv+"=0", "PAWL_FENCE=9", "PAWL_CELL=c")
		return finish(t, cmd)
	}
	r := claim()
	contains(t, r.stderr, "RESOURCE is accounts2, and this runs under a lease of report (PAWL_NAME)", "--other-resource")
	if m := seenAt(t, dsn, "accounts2"); r.code != exit.CodeUsage || m.FencingToken != "7" {
		t.Errorf("the mark is %+v after %+v", m, r)
	}
	if r := claim("--token", "8"); r.code != 0 {
		t.Errorf("with a token: %+v", r)
	}
	if r := claim("--other-resource"); r.code != 0 {
		t.Errorf("when it is meant: %+v", r)
	}
	if m := seenAt(t, dsn, "accounts2"); m.FencingToken != "9" {
		t.Errorf("the mark is %+v", m)
	}
	cmd := command(t, "guard", "claim", "report", "--dsn", dsn)
	cmd.Env = append(cmd.Env, nameEnv+"=report", slotEnv+"=two", "PAWL_FENCE=9", "PAWL_CELL=c")
	if r := finish(t, cmd); r.code != exit.CodeUsage || !strings.Contains(r.stderr, slotEnv) {
		t.Errorf("a slot that is no number: %+v", r)
	}
}
