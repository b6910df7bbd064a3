package main

import (
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testwait"
)

// under starts a run with somebody's credential, and returns what it says and what
// ends its command.
func (f *fortress) under(who string, args ...string) (said *growing, end func() int) {
	f.t.Helper()
	cmd := f.command(append(append([]string{"run"}, args...), "--", "sh", "-c", "read line; exit 0")...)
	cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca, client.CredentialEnv+client.FileSuffix+"="+f.credential(who))
	said = &growing{}
	cmd.Stderr = said
	hold, err := cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	return said, func() int {
		_, _ = hold.Write([]byte("\n")) // it may have ended
		hold.Close()
		_ = cmd.Wait() // its code tells
		return shellCode(cmd.ProcessState)
	}
}

// A limit of the server's is an answer, and one of its own: the lease is not
// acquired, and no server is missed.
func TestLimitOfStreams(t *testing.T) {
	f := newFortress(t)
	f.write(strings.Replace(f.read(f.auth), "- name: \"a\"\n", "- name: \"a\"\n    limits: {streams: 1}\n", 1))
	f.reload("auth file: in force")
	_, end := f.under("a", "a/1")
	testwait.Until(t, bound, "the lease is held", func() bool {
		return strings.Contains(f.as("a", "ls", "--json").stdout, `"a/1"`)
	})
	for _, args := range [][]string{{"run", "a/2", "-n", "--", "true"}, {"run", "a/2", "-w", "1m", "--", "true"}} {
		r := f.must(exit.CodeNotAcquired, "a", args...)
		contains(t, r.stderr, "limit reached: ", "this identity has 1 streams, its limit")
		if strings.Contains(r.stderr, "no server") {
			t.Errorf("it reads %q", r.stderr)
		}
	}
	if code := end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A credential that is withdrawn under a command: it says so at once, since a
// server has answered, and goes on without a word when it is given back in time.
func TestWithdrawnCredential(t *testing.T) {
	f := newFortress(t)
	said, end := f.under("a", "a/1", "--ttl", "1m")
	testwait.Until(t, bound, "the lease is held", func() bool {
		return strings.Contains(f.as("a", "ls", "--json").stdout, `"a/1"`)
	})
	whole := f.read(f.auth)
	f.write(strings.Replace(whole, f.entry("a"), "", 1))
	f.reload("auth file: in force")
	testwait.Until(t, bound, "it says so", func() bool {
		return strings.Contains(said.String(), "the server refuses to renew the lease (unauthenticated: ")
	})
	if strings.Contains(said.String(), "no server has answered") {
		t.Errorf("it reads %q", said.String())
	}
	f.write(whole)
	f.reload("auth file: in force")
	testwait.Until(t, bound, "all is well", func() bool { return strings.Contains(said.String(), "renewals are answered again") })
	if code := end(); code != 0 {
		t.Errorf("ended with %d: %s", code, said.String())
	}
}

// An address that no connection comes about with is refused by every flag that takes
// one, with the reason.
func TestLinkLocalAddressIsRefusedEverywhere(t *testing.T) {
	const local = "[fe80::1%eth0]:7420"
	for _, args := range [][]string{
		{"ls", "--servers", local},
		{"run", "a", "--servers", "127.0.0.1:7420," + local, "--", "true"},
		{"acquire", "a", "--servers", "[fe80::1]:7420"},
		{"serve", "--listen", local},
		{"serve", "--http", local, "--insecure"},
		{"serve", "--debug-listen", local, "--insecure"},
		{"serve", "--store", "etcd", "--endpoints", local},
		{"log", "dump", "--store", "etcd", "--endpoints", local},
	} {
		contains(t, want(t, exit.CodeUsage, args...).stderr, "link-local")
	}
	want(t, exit.CodeUsage, "serve", "--advertise", local)
	want(t, exit.CodeUsage, "serve", "--advertise-http", "fe80::1%eth0")
	cmd := command(t, "ls")
	cmd.Env = append(cmd.Env, client.ServersEnv+"="+local)
	if r := finish(t, cmd); r.code != exit.CodeUsage {
		t.Errorf("from the environment: %+v", r)
	}
}
