package main

import (
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/bounds"
)

func TestLeaseByCommands(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("orders/7", "--ttl", "1h", "--label", "a label")
	if l.Name != "orders/7" || l.TTL != "1h0m0s" || l.Lease == "" || l.Session == "" || l.Fence != l.FencingToken {
		t.Errorf("acquire printed %+v", l)
	}
	held := s.want(exit.CodeNotAcquired, "acquire", "orders/7")
	contains(t, held.stderr, `pawl acquire: orders/7 is held by "a label"`, "token "+l.FencingToken, "since ", "expires in ")
	if held.stdout != "" {
		t.Errorf("a refusal printed %q", held.stdout)
	}
	renewed := read[lease](t, s.want(0, "renew", l.Lease).stdout)
	if renewed.TTL != "1h0m0s" || renewed.Session != l.Session {
		t.Errorf("renew printed %+v", renewed)
	}
	// Another TTL, by the lease and by its session; a renewal that names none is
	// good for what was asked for last.
	for _, step := range []struct {
		args []string
		ttl  string
	}{
		{[]string{"renew", l.Lease, "--ttl", "2h"}, "2h0m0s"},
		{[]string{"renew", l.Session, "--session", "--ttl", "30m"}, "30m0s"},
		{[]string{"renew", l.Lease}, "30m0s"},
	} {
		if renewed := read[lease](t, s.want(0, step.args...).stdout); renewed.TTL != step.ttl {
			t.Errorf("%q printed %+v", step.args, renewed)
		}
	}
	contains(t, s.want(0, "ls").stdout, "NAME", "orders/7", l.FencingToken, `"a label"`)
	contains(t, s.want(0, "show", "orders/7").stdout, `orders/7 is held by "a label"`, "token "+l.FencingToken)
	contains(t, s.want(0, "status").stdout, l.Cell, "leases", s.link+" (answers)", "memory")
	if a, b := s.want(0, "renew", l.Lease).stdout, s.want(0, "renew", l.Lease, "--json").stdout; a != b {
		t.Errorf("renew says %q, and with --json %q", a, b)
	}
	if other := s.acquire("json"); s.want(0, "release", other.Lease, "--json").stdout != "{}\n" {
		t.Error("release --json says something else than {}")
	}
	if r := s.want(0, "release", l.Lease); r.stdout+r.stderr != "" {
		t.Errorf("release said %+v", r)
	}
	for _, verb := range []string{"release", "renew"} {
		contains(t, s.want(exit.CodeLost, verb, l.Lease).stderr, "pawl "+verb+": no such lease")
	}
	contains(t, s.want(0, "show", "orders/7").stdout, "orders/7 is free")
	if r := s.want(0, "ls", "--json"); r.stdout != "" {
		t.Errorf("ls of nothing printed %q", r.stdout)
	}
	for _, id := range []string{l.Lease, l.Session} {
		for _, r := range []result{held, s.want(0, "ls"), s.want(0, "status", "--json")} {
			if strings.Contains(r.stdout+r.stderr, id) {
				t.Errorf("a capability is shown: %+v", r)
			}
		}
	}
}

func TestRepeatedAcquireFindsItsLease(t *testing.T) {
	s := serve(t, "--store", "memory")
	args := []string{"a", "--ttl", "1m", "--request-id", "one"}
	if first, again := s.acquire(args...), s.acquire(args...); first.Lease != again.Lease {
		t.Errorf("first %+v, then %+v", first, again)
	}
}

// C71: a refusal says all that a break needs; a break names the lease it means.
func TestBreakByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "--ttl", "1h")
	contains(t, s.want(exit.CodeOther, "break", "a", "--token", "1", "--reason", "r").stderr,
		`"a" is held under another token than 1; see "pawl show a"`)
	contains(t, s.want(0, "break", "a", "--token", l.FencingToken, "--reason", "r").stdout, "asked to let go")
	if h := s.show("a").Holders; len(h) != 1 || !h[0].Breaking {
		t.Errorf("after the request the holders are %+v", h)
	}
	contains(t, s.want(0, "break", "a", "--token", l.FencingToken, "--reason", "r", "--now").stdout, "has ended")
	next := s.acquire("a", "--ttl", "1h")
	s.want(exit.CodeOther, "break", "a", "--token", l.FencingToken, "--reason", "r", "--now")
	if h := s.show("a").Holders; len(h) != 1 || h[0].FencingToken != next.FencingToken {
		t.Errorf("a late break hit %+v", h)
	}
	s.want(0, "release", next.Lease)
	contains(t, s.want(exit.CodeOther, "break", "a", "--token", next.FencingToken, "--reason", "r").stderr, "free")
}

func TestUsageOfCommands(t *testing.T) {
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"nonsense"}, "unknown command"},
		{[]string{"acquire"}, "NAME is missing"},
		{[]string{"acquire", ""}, "1 to 512 bytes"},
		{[]string{"acquire", "a\nb"}, "control character"},
		{[]string{"acquire", strings.Repeat("n", 513)}, "512"},
		{[]string{"acquire", "a", ""}, "1 to 512 bytes"},
		{[]string{"acquire", "a", "--slots", "0"}, "1 to 10000"},
		{[]string{"acquire", "a", "--slots", "-1"}, "1 to 10000"},
		{[]string{"acquire", "a", "--slots", "10001"}, "1 to 10000"},
		{[]string{"acquire", "a", "--slots", "4294967297"}, "1 to 10000"},
		{[]string{"acquire", "a", "--slots", "x"}, "--slots"},
		{[]string{"acquire", "a", "--slots", "2", "--shared"}, "expected one"},
		{[]string{"acquire", "a", "--lock-delay", "-1s"}, "0 to 1h"},
		{[]string{"acquire", "a", "--lock-delay", "61m"}, "0 to 1h was"},
		{[]string{"acquire", "a", "--value", strings.Repeat("v", 65537)}, "65536"},
		{[]string{"acquire", "a", "--ttl", "10"}, "such as 15s"},
		{[]string{"acquire", "a", "--ttl", "0s"}, "1s to 24h"},
		{[]string{"acquire", "a", "--ttl", "25h"}, "the ttl is 25h0m0s; 1s to 24h was expected"},
		{[]string{"acquire", "a", "--wait", "-1s"}, "0 to 24h"},
		{[]string{"acquire", "a", "--wait", "25h"}, "0 to 24h"},
		{[]string{"acquire", "a", "--ttl", "10s", "--session", "x"}, "expected one"},
		{[]string{"acquire", "a", "--label", strings.Repeat("l", 257)}, "256"},
		{[]string{"acquire", "a", "--servers", "localhost"}, "host:port"},
		{[]string{"acquire", "a", "--servers", "http://localhost:1"}, "host:port"},
		{[]string{"renew", "x", "--ttl", "0s"}, "1s to 24h"},
		{[]string{"renew", "x", "--ttl", "25h"}, "1s to 24h"},
		{[]string{"renew", "x", "--ttl", "10"}, "such as 15s"},
		{[]string{"release"}, "LEASE is missing"},
		{[]string{"ls", "--ca", "nofile"}, "pawl ls: --ca, or PAWL_CA: open nofile"},
		{[]string{"ls", "--ca", "system", "--cert", "c", "--key", "k"}, "pawl ls: --cert with --key, or PAWL_CERT with PAWL_KEY: "},
		{[]string{"ls", "a", "b"}, "at most 1"},
		{[]string{"break", "a", "--reason", "r"}, "--token is missing"},
		{[]string{"break", "a", "--token", "0", "--reason", "r"}, "2^53-1"},
		{[]string{"break", "a", "--token", "1"}, "--reason is missing"},
		{[]string{"drill", "outage"}, "--for is missing"},
		{[]string{"drill", "outage", "--for", "0s"}, "at most 1h"},
		{[]string{"drill", "outage", "--for", "-1s"}, "at most 1h"},
		{[]string{"drill", "outage", "--for", "61m"}, "at most 1h"},
		{[]string{"demo", "zombie", "--ttl", "1m"}, "1s to 10s"},
	} {
		r := want(t, exit.CodeUsage, tc.args...)
		contains(t, r.stderr, "pawl", tc.says)
		if r.stdout != "" {
			t.Errorf("%q printed %q", tc.args, r.stdout)
		}
	}
}

func TestHelpBeginsWithTheDemo(t *testing.T) {
	r := want(t, 0)
	demo, acquire := strings.Index(r.stdout, "\n  demo "), strings.Index(r.stdout, "\n  acquire ")
	if demo < 0 || acquire < demo || strings.Contains(r.stdout, "demo-worker") || strings.Contains(r.stdout, "__watch") {
		t.Errorf("the help is:\n%s", r.stdout)
	}
	for _, c := range []string{"serve", "run", "elect", "leader", "acquire", "renew", "release", "ls", "show", "break", "status"} {
		help := want(t, 0, c, "--help").stdout
		contains(t, help, "Examples:", "Exit codes:")
		// A caller without a lease has none to lose.
		none := slices.Contains([]string{"ls", "show", "status", "leader", "break"}, c)
		if none && (strings.Contains(help, "70 lease gone") || strings.Contains(help, "not acquired")) {
			t.Errorf("the exit codes of %s:\n%s", c, help)
		}
	}
	contains(t, want(t, 0, "version").stdout, "pawl ")
	contains(t, want(t, 0, "completion", "bash").stdout, "complete")
}

// C65: "no wait" and "wait" mean the same to every kind of caller.
func TestWaitMeansTheSameEverywhere(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h")
	for wait, code := range map[string]int{"": exit.CodeNotAcquired, "0s": exit.CodeNotAcquired, "-1ns": exit.CodeUsage, "1ms": exit.CodeNotAcquired} {
		var args []string
		body := `{"name":"a"}`
		if wait != "" {
			args, body = []string{"--wait=" + wait}, `{"name":"a","wait":"`+wait+`"}`
		}
		s.want(code, append([]string{"acquire", "a"}, args...)...)
		if wait != "" { // run waits for ever when it is told nothing
			s.want(code, append(append([]string{"run", "a"}, args...), "--", "true")...)
		}
		status, text := s.post("/v1/leases", body)
		if expected := map[int]int{exit.CodeNotAcquired: 409, exit.CodeUsage: 400}[code]; status != expected {
			t.Errorf("wait %q over HTTP: %d %s", wait, status, text)
		}
	}
	c, err := pawl.Dial(t.Context(), []string{s.link}, pawl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.TryAcquire(t.Context(), "a"); err == nil {
		t.Error("the SDK was granted a held name")
	}
}

// C78, C79: the command line takes and refuses the names that HTTP does.
func TestNamesByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	for _, name := range []string{
		"a/b", "a", "a/", "A/B", ".", "..", "file:///x", "with blanks ", "%2F", "+", "?", "#", "-x", "🔒", "e\u0301", `"q"`,
		strings.Repeat("n", bounds.NameMax),
	} {
		l := read[lease](t, s.want(0, "acquire", "--ttl", "1h", "--", name).stdout)
		if got := read[lock](t, s.want(0, "show", "--json", "--", name).stdout); l.Name != name || got.Name != name || len(got.Holders) != 1 {
			t.Errorf("%q was granted as %+v and is shown as %+v", name, l, got)
		}
	}
	for _, name := range []string{"", "a\nb", "\x7f", "\xff", "\u0085", strings.Repeat("n", bounds.NameMax+1)} {
		s.want(exit.CodeUsage, "acquire", "--", name)
		s.want(exit.CodeUsage, "show", "--", name)
		s.want(exit.CodeUsage, "run", name, "--", "true")
	}
	// What a terminal would obey does not reach it.
	s.acquire("b", "--label", "\x1b[31mred\r", "--ttl", "1h")
	for _, r := range []result{s.want(0, "ls"), s.want(0, "show", "b")} {
		if strings.ContainsAny(r.stdout, "\x1b\r") {
			t.Errorf("a label reached the terminal: %q", r.stdout)
		}
	}
}

func TestSignalledAcquireLeavesQueue(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := s.command("acquire", "a", "--wait", "1h")
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.waits("a", 1)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its code tells
		if died := diedOf(cmd.ProcessState); died != sig || said.String() != "" {
			t.Errorf("after %v it ended by %v, %v, and said %q", sig, died, cmd.ProcessState, said.String())
		}
		s.waits("a", 0)
	}
}

func TestServersAreTriedInTurn(t *testing.T) {
	s := serve(t, "--store", "memory")
	nobody := closedPort(t)
	for _, list := range []string{nobody + "," + s.link, s.link + "," + nobody, nobody + ", " + s.link} {
		want(t, 0, "ls", "--servers", list)
	}
	cmd := command(t, "ls")
	cmd.Env = append(cmd.Env, client.ServersEnv+"="+nobody+","+s.link)
	if r := finish(t, cmd); r.code != 0 {
		t.Errorf("%+v", r)
	}
	r := want(t, exit.CodeUnavailable, "ls", "--servers", nobody)
	contains(t, r.stderr, "no server answers at", "connection refused", "pawl serve")
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// C57: nothing that is not a grant is taken for one.
func TestUnreachableServerGrantsNothing(t *testing.T) {
	hangsUp, talksNonsense := badServer(t, ""), badServer(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	for _, servers := range []string{closedPort(t), hangsUp, talksNonsense, "no-such-host.invalid:7420"} {
		for _, args := range [][]string{{"run", "a", "-n", "--", "echo", "ran"}, {"acquire", "a"}} {
			t.Run(args[0]+" "+servers, func(t *testing.T) {
				t.Parallel() // each waits for a server that may be taking over
				r := want(t, exit.CodeUnavailable, append([]string{args[0], "--servers", servers}, args[1:]...)...)
				if r.stdout != "" {
					t.Errorf("it printed %q", r.stdout)
				}
			})
		}
	}
}

// badServer answers every connection with some bytes and hangs up.
func badServer(t *testing.T, says string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(bound))
			_, _ = io.WriteString(conn, says)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}
