package endtoend

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Exit codes, as scripts know them.
const (
	exitUsage       = 64
	exitUnavailable = 69
	exitNotAcquired = 75
)

// Whatever is typed, a command ends soon, with a code that tells what it was, a
// line that says what was expected, and nothing on the standard output.
func TestBadCommands(t *testing.T) {
	s := newServer(t)
	s.up()
	before := s.goroutines()
	s.want(0, "acquire", "held", "--ttl", "1h", "--label", "somebody")
	file := filepath.Join(t.TempDir(), "a-file")
	if err := os.WriteFile(file, []byte("nonsense: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(t.TempDir(), "long")
	if err := errors.Join(os.WriteFile(long, nil, 0o600), os.Truncate(long, 8<<20+1)); err != nil {
		t.Fatal(err)
	}
	const nobody = "127.0.0.1:1"
	for _, tc := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "unknown command", []string{"nonsense"}},
		{exitUsage, "unknown flag", []string{"--nonsense"}},
		{exitUsage, "unknown command", []string{""}},
		{exitUsage, "nonsense", []string{"help", "nonsense"}},
		{exitUsage, "tcsh", []string{"completion", "tcsh"}},
		{exitUsage, "nonsense", []string{"demo", "nonsense"}},
		{exitUsage, "unknown flag", []string{"acquire", "a", "--nonsense"}},
		{exitUsage, "unknown shorthand", []string{"acquire", "a", "-z"}},
		{exitUsage, "NAME is missing", []string{"acquire"}},
		{exitUsage, "1 to 512 bytes", []string{"acquire", ""}},
		{exitUsage, `flag: expected a whole number`, []string{"acquire", "a", "--slots", "1e1"}},
		{exitUsage, `flag: expected a whole number, and not such a large one`, []string{"acquire", "a", "--slots", "18446744073709551617"}},
		{exitUsage, `flag: expected true or false`, []string{"ls", "--json=perhaps"}},
		{exitUsage, "needs an argument", []string{"acquire", "a", "--ttl"}},
		{exitUsage, "such as 15s", []string{"acquire", "a", "--ttl", "10"}},
		{exitUsage, "such as 15s", []string{"acquire", "a", "--ttl", "9999999999h"}},
		{exitUsage, "1s to 24h was expected", []string{"acquire", "a", "--ttl", "-10s"}},
		{exitUsage, "0 to 24h was expected", []string{"acquire", "a", "--wait", "-1s"}},
		{exitUsage, "0 to 24h was expected", []string{"run", "a", "--wait", "-1s", "--", "true"}},
		{exitUsage, "host:port", []string{"ls", "--servers", "nonsense"}},
		{exitUsage, "host:port", []string{"ls", "--servers", ","}},
		{exitUsage, "LEASE is missing", []string{"renew"}},
		{exitUsage, "too many arguments", []string{"release", "a", "b"}},
		{exitUsage, "at most 1", []string{"ls", "a", "b"}},
		{exitUsage, "2^53-1", []string{"break", "held", "--token", "-1", "--reason", "r"}},
		{exitUsage, "2^53-1", []string{"break", "held", "--token", "9007199254740992", "--reason", "r"}},
		{exitUsage, "1024", []string{"break", "held", "--token", "1", "--reason", strings.Repeat("r", 1025)}},
		{exitUsage, "--kill-after", []string{"run", "a", "--ttl", "1s", "-k", "5s", "--", "true"}},
		{exitUsage, `"--" is missing`, []string{"run", "a", "true"}},
		{exitUsage, "two descriptors", []string{"__watch"}},
		{exitUsage, "--insecure", []string{"serve", "--listen", "0.0.0.0:0"}},
		{exitUsage, "a-file", []string{"serve", "--config", file}},
		{exitUsage, "more than 1048576 bytes", []string{"serve", "--config", long}},
		{exitUsage, "more than 8388608 bytes", []string{"ls", "--servers", nobody, "--ca", long}},
		{exitUsage, "more than 8388608 bytes", []string{"ls", "--servers", nobody, "--ca", "system", "--cert", long, "--key", long}},
		{1, "more than 8388608 bytes", []string{"auth", "new", "a", "--prefix", "", "--file", long, "--out", file + "x"}},
		{exitUnavailable, "connection refused", []string{"acquire", "a", "--servers", nobody}},
		{exitUnavailable, "connection refused", []string{"run", "a", "-n", "--servers", nobody, "--", "true"}},
		{exitUnavailable, "in use", []string{"serve", "--data", s.data, "--listen", "127.0.0.1:0", "--http", "off"}},
		{exitUnavailable, "in use", []string{"serve", "--store", "memory", "--listen", s.link, "--http", "off"}},
		{exitUnavailable, "not a directory", []string{"serve", "--data", file, "--listen", "127.0.0.1:0", "--http", "off"}},
		{exitLost, "no such lease", []string{"renew", "nonsense"}},
		{exitLost, "no such lease", []string{"release", strings.Repeat("f", 32)}},
		{exitLost, "session", []string{"acquire", "a", "--session", strings.Repeat("f", 32), "--request-id", "r"}},
		{exitLost, "session", []string{"acquire", "a", "--session", strings.Repeat("f", 32)}},
		{1, "token", []string{"break", "held", "--token", "1", "--reason", "r"}},
		{exitNotAcquired, "somebody", []string{"acquire", "held"}},
		{exitNotAcquired, "somebody", []string{"run", "held", "-n", "--", "true"}},
		{126, "a-file", []string{"run", "a", "--", file}},
		{127, "not found", []string{"run", "a", "--", "no-such-command-here"}},
	} {
		r := s.pawl(tc.args...)
		if r.code != tc.code || !strings.Contains(r.stderr, tc.says) || r.stdout != "" || !strings.HasPrefix(r.stderr, "pawl") {
			t.Errorf("pawl %.100q: expected code %d and %q, got %v", tc.args, tc.code, tc.says, r)
		}
		if strings.Contains(r.stderr, "goroutine ") {
			t.Errorf("pawl %.100q panicked: %v", tc.args, r)
		}
		if tc.code == exitUsage && tc.args[0] != "__watch" && !strings.Contains(r.stderr, `--help" shows what it takes`) {
			t.Errorf("pawl %.100q does not say where to look: %v", tc.args, r)
		}
	}
	s.checkHealthy(before)
}
