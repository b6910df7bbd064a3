package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
)

func TestGradesByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h")
	s.acquire("b", "--ttl", "1h", "--lock-delay", "1s")
	s.acquire("c", "--ttl", "1h", "--claims", "--shared")
	s.acquire("d", "--ttl", "1h", "--claims", "--ride-through", "90m")
	ls := s.want(0, "ls").stdout
	for i, want := range []string{"GRADE", "advisory", "delayed", "claimed", "claimed, may ride 1h30m0s"} {
		if line := strings.Split(ls, "\n")[i]; !strings.Contains(line, want) {
			t.Errorf("line %d has no %q: %s", i, want, line)
		}
	}
	contains(t, s.want(0, "show", "b").stdout, "grade: delayed")
	contains(t, s.want(0, "show", "d").stdout, "grade: claimed; may ride through an outage for 1h30m0s")
	contains(t, second(s.get("/metrics")), `pawl_leases_by_grade{grade="claimed"} 2`, `pawl_leases_by_grade{grade="delayed"} 1`,
		`pawl_leases_by_grade{grade="advisory"} 1`, "pawl_riders 1", "pawl_names_claim_only 0")
}

// A break by force of a rider says what it does not do, and what does. Who does not claim
// is told why the name is closed to it, with and without a holder.
func TestBrokenRiderByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "--ttl", "1h", "--claims", "--ride-through", "1h")
	polite := s.want(0, "break", "a", "--token", l.FencingToken, "--reason", "r").stdout
	if strings.Contains(polite, "may go on") {
		t.Errorf("a polite break says %q", polite)
	}
	contains(t, s.want(0, "break", "a", "--token", l.FencingToken, "--reason", "r", "--now").stdout,
		"has ended", "may go on for up to 1h0m0s", "pawl run a --claim DSN -- true", "acquires that do not claim")
	contains(t, s.want(0, "ls").stdout, "claim-only for ")
	free := s.want(0, "show", "a").stdout
	contains(t, free, "a is claim-only for ", "its holder may be going on")
	if strings.Contains(free, "a is free") {
		t.Errorf("shown as %q", free)
	}
	for _, wait := range []string{"0s", "1ms"} {
		contains(t, s.want(exit.CodeNotAcquired, "acquire", "a", "--wait", wait).stderr, "acquires that do not claim", `claim a guard of the resource before you act, and say so by --claims; "pawl run NAME --claim DSN" does both`)
	}
	contains(t, s.want(exit.CodeNotAcquired, "run", "a", "-n", "--", "true").stderr, "acquires that do not claim", "say so by --claims")
	s.acquire("a", "--ttl", "1h", "--claims")
	for _, wait := range []string{"0s", "1ms"} {
		contains(t, s.want(exit.CodeNotAcquired, "acquire", "a", "--wait", wait).stderr, "a is held by", "acquires that do not claim", "say so by --claims")
	}
	contains(t, s.want(0, "ls").stdout, "exclusive, claim-only for ")
	contains(t, second(s.get("/metrics")), "pawl_names_claim_only 1")

	l = s.acquire("b", "--ttl", "1h", "--claims", "--ride-through", "90s")
	if b := read[rest.BreakBody](t, s.want(0, "break", "b", "--token", l.FencingToken, "--reason", "r", "--now", "--json").stdout); !b.Ended || b.RidesOn == nil || time.Duration(*b.RidesOn) != 90*time.Second {
		t.Errorf("as JSON: %+v", b)
	}
}

func TestWrongRidesAreUsageErrors(t *testing.T) {
	s := serve(t, "--store", "memory")
	for args, want := range map[string]string{
		"a --ride-through 1h":                   "--claims",
		"a --claims --ride-through 0s":          "more than 0",
		"a --claims --ride-through 25h":         "at most 24h",
		"a --claims --shared --ride-through 1h": "--shared",
		"a b --claims --ride-through 1h":        "2 names",
		"a --claims --ride-through x":           "expected a duration such as 15s",
	} {
		contains(t, s.want(exit.CodeUsage, append([]string{"acquire"}, strings.Fields(args)...)...).stderr, want)
	}
}
