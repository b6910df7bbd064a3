package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testwait"
)

// readyz waits until the server says that it is ready.
func (s *served) readyz() {
	s.t.Helper()
	testwait.Until(s.t, bound, "/readyz answers 200", func() bool {
		s.mu.Lock()
		there := s.http != ""
		s.mu.Unlock()
		if !there {
			return false
		}
		code, _ := s.get("/readyz")
		return code == 200
	})
}

func TestServeGoesOnWhereItStopped(t *testing.T) {
	data := filepath.Join(t.TempDir(), "deep", "data")
	s := launch(t, "--data", data)
	s.readyz()
	first := s.acquire("a", "--ttl", "1h", "--label", "first")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("a clean stop ended with %d:\n%s", code, s.said())
	}
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGINT} {
		s = launch(t, "--data", data)
		s.readyz()
		held := s.show("a")
		if len(held.Holders) != 1 || held.Holders[0].FencingToken != first.FencingToken || held.Holders[0].Label != "first" {
			t.Fatalf("after a restart %q is %+v", "a", held)
		}
		s.want(0, "renew", first.Lease)
		second := s.acquire("b", "--ttl", "1h")
		if second.FencingToken <= first.FencingToken || second.Cell != first.Cell {
			t.Fatalf("after %+v came %+v", first, second)
		}
		s.want(0, "release", second.Lease)
		s.stop(how)
	}
}

func TestServeStopsOnSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		s := serve(t, "--store", "memory")
		waiter := s.command("acquire", "a", "--wait", "1h")
		s.acquire("a", "--ttl", "1h")
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		s.waits("a", 1)
		if code := s.stop(sig); code != 0 {
			t.Errorf("after %v it ended with %d:\n%s", sig, code, s.said())
		}
		if said := s.said(); strings.Contains(said, `"level":"WARN"`) || strings.Contains(said, `"level":"ERROR"`) {
			t.Errorf("a clean stop is logged as trouble:\n%s", said)
		}
		_ = waiter.Process.Kill() // it may have given up by itself
		_ = waiter.Wait()
	}
}

func TestServeRefusesInvalidFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "--insecure"},
		{[]string{"--http", ":0"}, "--insecure"},
		{[]string{"--listen", "10.1.2.3:7420"}, "--insecure"},
		{[]string{"--debug-listen", "[::]:0"}, "--insecure"},
		{[]string{"--listen", "7420"}, "host:port"},
		{[]string{"--listen", "off", "--http", "off"}, "both off"},
		{[]string{"--store", "zookeeper"}, "embedded, etcd, memory"},
		{[]string{"--cell", "a/b"}, "1 to 64 letters"},
		{[]string{"--cell-id", "default"}, "16 hex digits"},
		{[]string{"--cell", "a", "--cell-id", "b-0123456789abcdef"}, "same name"},
		{[]string{"--token-floor", "-1"}, "2^53-1"},
		{[]string{"--token-floor", "0"}, "2^53-1"},
		{[]string{"--active-ttl", "3"}, "expected a duration such as 15s"},
		{[]string{"--active-ttl", "1ms"}, "500ms"},
		{[]string{"--log-level", "loud"}, "debug, info"},
		{[]string{"--config", "/nonexistent"}, "no such file"},
		{[]string{"--nonsense"}, "unknown flag"},
		{[]string{"now"}, "takes no arguments"},
	} {
		r := want(t, exit.CodeUsage, append([]string{"serve"}, tc.args...)...)
		contains(t, r.stderr, tc.says, "pawl serve")
		if r.stdout != "" {
			t.Errorf("%q printed %q", tc.args, r.stdout)
		}
	}
}

func TestServeReportsWhyItCannotServe(t *testing.T) {
	data := t.TempDir()
	s := serve(t, "--data", data)
	r := want(t, exit.CodeUnavailable, "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "off")
	contains(t, r.stderr, "in use")
	r = want(t, exit.CodeUnavailable, "serve", "--store", "memory", "--listen", s.link, "--http", "off")
	contains(t, r.stderr, "address is in use")
}

func TestServeReadsItsConfig(t *testing.T) {
	path := writeFile(t, "pawl.yaml", "store: memory\ncell: blue\nactive-ttl: 2s\nhttp-host: [locks.example, other.example]\nlog-level: warn\ninsecure: false\n")
	s := serve(t, "--config", path, "--log-level", "info")
	got := read[struct {
		Cell      string
		Store     string
		ActiveTTL string `json:"active_ttl"`
	}](t, s.want(0, "status", "--json").stdout)
	if !strings.HasPrefix(got.Cell, "blue-") || got.Store != "memory" || got.ActiveTTL != "2s" {
		t.Errorf("the config gave %+v", got)
	}
	for text, says := range map[string]string{
		"debug-listen: 0.0.0.0:0":        "--insecure",
		"lisen: 127.0.0.1:0":             `"lisen" in line 1`,
		"store: memory\nstore: embedded": "already defined",
		"store: []":                      "store in line 1",
		"active-ttl: {a: 1}":             "active-ttl in line 1",
		"active-ttl:":                    "expected a duration",
		"config: x":                      "unknown key",
		"- a":                            "not a YAML mapping",
		"a: [":                           "not a YAML mapping",
	} {
		r := want(t, exit.CodeUsage, "serve", "--listen", "127.0.0.1:0", "--http", "off", "--config", writeFile(t, "bad.yaml", text))
		contains(t, r.stderr, says)
	}
}

// C73: the number of series does not depend on what users make up.
func TestMetricsHaveNoNames(t *testing.T) {
	s := serve(t, "--store", "memory")
	series := func() int {
		code, text := s.get("/metrics")
		if code != 200 {
			t.Fatalf("/metrics: %d %s", code, text)
		}
		contains(t, text, "pawl_leases ", "pawl_active 1", "go_goroutines", "process_open_fds")
		n := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "pawl_") {
				n++
			}
		}
		if strings.Contains(text, "some-name") || strings.Contains(text, "some-label") {
			t.Error("a metric shows a name or a label")
		}
		return n
	}
	before := series()
	for i := range 50 {
		if code, text := s.post("/v1/leases", `{"name":"some-name-`+strings.Repeat("x", i)+`","label":"some-label"}`); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
	}
	if after := series(); after != before {
		t.Errorf("%d series before, %d after", before, after)
	}
	contains(t, second(s.get("/metrics")), "pawl_leases 50", "pawl_leases_granted_total 50")
}

func second(_ int, text string) string { return text }

// Durations in the log are as Go writes them, in either form of it.
func TestDurationsOfTheLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var log bytes.Buffer
		newLogger(&log, format, "info").Info("serving", "after", 1500*time.Millisecond, "n", 3)
		contains(t, log.String(), "1.5s", "3")
	}
}
