package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard"
)

// C38, C42, C55: a holder that slept past its lease comes back with its old ids, over
// HTTP and the command line, which keep no state of their own. Its releases, renewals
// and closes find nothing, and the next holder's lease is unchanged: a third caller
// still waits.
func TestReturningHolderEndsNothing(t *testing.T) {
	s := serve(t, "--store", "memory")
	for round := range 3 {
		old := s.acquire("a", "--ttl", "1s")
		next := s.acquire("a", "--ttl", "1h", "--wait", "1m")
		s.want(exit.CodeLost, "renew", old.Lease)
		s.want(exit.CodeLost, "renew", "--session", old.Session)
		s.want(exit.CodeLost, "release", old.Lease)
		s.want(exit.CodeLost, "release", "--session", old.Session)
		for _, path := range []string{"/v1/leases/" + old.Lease, "/v1/sessions/" + old.Session} {
			if code, text := s.post(path+"/renew", ""); code != http.StatusNotFound {
				t.Errorf("%s renewed: %d %s", path, code, text)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+s.http+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("%s deleted: %d", path, res.StatusCode)
			}
		}
		s.want(exit.CodeNotAcquired, "acquire", "a")
		if h := s.show("a").Holders; len(h) != 1 || h[0].FencingToken != next.FencingToken {
			t.Fatalf("round %d: held by %+v; %s was granted", round, h, next.FencingToken)
		}
		if next.Lease == old.Lease || next.Session == old.Session || next.FencingToken == old.FencingToken {
			t.Errorf("round %d: an id came twice: %+v after %+v", round, next, old)
		}
		s.want(0, "renew", next.Lease)
		s.want(0, "release", next.Lease)
	}
}

// C25: every duration that may be left out is given as zero. It is taken as zero, or
// refused; nothing takes it for left out.
func TestZeroFlagDiffersFromAbsent(t *testing.T) {
	s := serve(t, "--store", "memory")
	for _, args := range [][]string{
		{"acquire", "a", "--ttl", "0s"},
		{"run", "a", "--ttl", "0s", "--", "true"},
		{"elect", "a", "--ttl", "0s", "--", "true"},
		{"renew", "x", "--ttl", "0s"},
		{"serve", "--store", "memory", "--active-ttl", "0s"},
	} {
		s.want(exit.CodeUsage, args...)
	}
	for path, body := range map[string]string{
		"/v1/sessions": `{"ttl":"0s"}`, "/v1/leases": `{"name":"a","ttl":"0s"}`,
	} {
		if code, text := s.post(path, body); code != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", path, body, code, text)
		}
	}
	held := s.acquire("a", "--ttl", "1h", "--lock-delay", "0s", "--wait", "0s")
	s.want(0, "break", "a", "--now", "--reason", "zero", "--token", held.FencingToken)
	s.want(0, "release", s.acquire("a", "--ttl", "1h").Lease) // closed for no time
	// No time between the request to end and the kill: the command does not get to say a word.
	held = s.acquire("held", "--ttl", "1h")
	s.want(exit.CodeNotAcquired, "run", "held", "-w", "0s", "-k", "0s", "--", "true")
	s.want(0, "release", held.Lease)
	s.want(0, "run", "held", "-k", "0s", "--", "true")
}

// C57: with no server, or with one that is none, nothing runs under a lease that was
// not granted: not the function either that is given to the SDK.
func TestDoRunsNothingWithoutLease(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("held", "--ttl", "1h")
	c, err := pawl.Dial(t.Context(), []string{s.link}, pawl.Options{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := func(what, name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := c.Do(ctx, name, func(context.Context, guard.Fence) error {
			t.Errorf("%s: it was run", what)
			return nil
		})
		if err == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	run("held", "held")
	run("no name", "")
	sigstop(t, s.cmd.Process)
	run("a server that is stopped", "free")
	s.kill()
	run("no server", "free")
	for what, says := range map[string]string{"a web server": "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "nonsense": "yes\n"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := pawl.Dial(ctx, []string{badServer(t, says)}, pawl.Options{}); err == nil {
			t.Errorf("%s is taken for a server", what)
		}
		cancel()
	}
}
