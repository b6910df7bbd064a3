package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdflags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
)

// Serve refuses conflicting flags before it touches anything.
func TestServeRefusesConflictingStoreFlags(t *testing.T) {
	empty := writeFile(t, "empty", "\n")
	word := writeFile(t, "word", "correct horse\n")
	for _, tc := range []struct {
		args, say string
	}{
		{"--endpoints 127.0.0.1:2379", "--endpoints belongs to --store etcd"},
		{"--store memory --store-user x", "--store-user belongs to --store etcd"},
		{"--store etcd", "needs --endpoints"},
		{"--store etcd --endpoints localhost", "is no endpoint"},
		{"--store etcd --endpoints ftp://localhost:1", "expected http or https"},
		{"--store etcd --endpoints localhost:1,http://localhost:1", "twice"},
		{"--store etcd --endpoints localhost:1 --prefix pawl", "begin and end with '/'"},
		{"--store etcd --endpoints localhost:1 --store-cert x", "belong together"},
		{"--store etcd --endpoints http://localhost:1 --store-ca x", "without TLS"},
		{"--store etcd --endpoints localhost:1 --store-user x", "needs a password"},
		{"--store etcd --endpoints localhost:1 --store-password-file " + word, "no --store-user"},
		{"--store etcd --endpoints localhost:1 --store-user x --store-password-file " + empty, "is empty"},
		{"--store etcd --endpoints etcd.example:1 --store-user x --store-password-file " + word, "in the clear"},
	} {
		cmd := command(t, append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data")}, strings.Fields(tc.args)...)...)
		cmd.Env = append(cmd.Env, etcdflags.PasswordEnv+"=", etcdflags.PasswordFileEnv+"=")
		if r := finish(t, cmd); r.code != exit.CodeUsage || !strings.Contains(r.stderr, tc.say) {
			t.Errorf("%s: %d %s, want %q", tc.args, r.code, r.stderr, tc.say)
		}
	}
}
