package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
)

// The whole story of a cell is there, as JSON and as text, and nothing in it lets
// anybody act.
func TestLogDumpOfAFolder(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := launch(t, "--data", data)
	s.readyz()
	l := s.acquire("orders/7", "--ttl", "1h", "--label", "a label", "--value", "who I am")
	running := pawlCLI(t, "log", "dump", "--data", data)
	if running.code != exit.CodeUnavailable || !strings.Contains(running.stderr, "in use by pid") {
		t.Errorf("beside a running server: %+v", running)
	}
	s.stop(syscall.SIGKILL)

	r := want(t, 0, "log", "dump", "--data", data, "--json")
	var kinds, events []string
	for line := range strings.Lines(r.stdout) {
		var record struct {
			Kind, Number, Epoch, Damage string
			Events                      []map[string]any
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kinds = append(kinds, record.Kind)
		for _, e := range record.Events {
			events = append(events, e["kind"].(string))
			if e["kind"] != "granted" {
				continue
			}
			if e["token"] != l.FencingToken || e["label"] != "a label" || e["value"] != "d2hvIEkgYW0=" {
				t.Errorf("the grant is shown as %v", e)
			}
		}
	}
	for _, kind := range []string{"tenure", "batch"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no %s among %q", kind, kinds)
		}
	}
	for _, kind := range []string{"cell", "tenure", "session_opened", "granted"} {
		if !slices.Contains(events, kind) {
			t.Errorf("no event %s among %q", kind, events)
		}
	}
	if !strings.HasPrefix(r.stderr, "whole: the cell in "+data) || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("the verdict is %q", r.stderr)
	}
	text := want(t, 0, "log", "dump", "--data", data).stdout
	if !strings.Contains(text, "granted") || !strings.Contains(text, `label="a label"`) || !strings.Contains(text, "active_ttl=3s") {
		t.Errorf("as text:\n%s", text)
	}
	for what, shown := range map[string]string{"JSON": r.stdout, "text": text} {
		for _, secret := range []string{l.Lease, l.Session} {
			if secret != "" && strings.Contains(shown, secret) {
				t.Errorf("the %s shows an id that is a capability", what)
			}
		}
		if strings.Contains(shown, "nonce") {
			t.Errorf("the %s shows a nonce", what)
		}
	}
	// The server goes on where it was: nothing was changed.
	s = launch(t, "--data", data)
	s.readyz()
	s.want(0, "renew", l.Lease)

	if r := pawlCLI(t, "log", "dump", "--data", t.TempDir()); r.code != exit.CodeData {
		t.Errorf("an empty folder: %+v", r)
	}
}
