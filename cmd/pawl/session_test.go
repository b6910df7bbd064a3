package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
)

// I8: a lease of a session of several is found again by its request id. What waits for
// a lease of its own session is told so.
func TestLeaseOfASessionByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	code, text := s.post("/v1/sessions", `{"ttl":"1h"}`)
	var session struct{ Session string }
	if err := json.Unmarshal([]byte(text), &session); err != nil || code != http.StatusOK {
		t.Fatalf("open a session: %d %s", code, text)
	}
	in := func(args ...string) []string {
		return append(args, "--session", session.Session, "--label", "l")
	}
	lost := s.acquire(in("a", "--request-id", "one")...)
	if again := s.acquire(in("a", "--request-id", "one")...); again.Lease != lost.Lease || again.FencingToken != lost.FencingToken {
		t.Errorf("the repeat of %+v got %+v", lost, again)
	}
	const hint = "repeating its request with the same request id"
	contains(t, s.want(exit.CodeNotAcquired, in("acquire", "a", "--request-id", "two")...).stderr, "a is held by l", hint)
	contains(t, s.want(exit.CodeNotAcquired, in("acquire", "b", "a", "--request-id", "two")...).stderr, "one of the names is held by l", hint)
	if r := s.want(exit.CodeNotAcquired, "acquire", "a"); strings.Contains(r.stderr, hint) {
		t.Errorf("another session is told %s", r.stderr)
	}
	s.want(0, "release", lost.Lease)
	s.acquire(in("a", "--request-id", "two")...)
}
