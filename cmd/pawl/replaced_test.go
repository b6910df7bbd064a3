package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// replace gives identity a another credential and the server a certificate of
// another authority. The old credential is forgotten and streams end; the new
// authority stands beside the old one in the file of the clients.
func (f *fortress) replace() {
	f.t.Helper()
	next := testcert.New(f.t, f.dir, "next")
	f.put(f.ca, f.read(f.ca)+f.read(next.File))
	next.Issue("server", nil)
	path := f.credential("a")
	f.put(path+".old", f.read(path))
	if err := os.Remove(path); err != nil {
		f.t.Fatal(err)
	}
	entry := want(f.t, 0, "auth", "new", "a", "--prefix", "a/", "--allow", "read,hold,break", "--out", path).stdout
	f.write("identities:\n" + entry)
	f.reload("auth file: in force")
}

func (f *fortress) put(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// Files that are replaced while a command stays are read again, whether a flag or
// the environment names them: it comes back with the new credential, to a server of
// the new authority. A request to let go comes by the stream alone.
func TestCommandThatStaysReadsItsFilesAgain(t *testing.T) {
	for name, given := range map[string]func(*fortress) (args, env []string){
		"flags": func(f *fortress) (args, env []string) {
			return []string{"--ca", f.ca, "--credential-file", f.credential("a")}, nil
		},
		"environment": func(f *fortress) (args, env []string) {
			return nil, []string{client.CAEnv + "=" + f.ca, client.CredentialEnv + client.FileSuffix + "=" + f.credential("a")}
		},
		"environment with _FILE": func(f *fortress) (args, env []string) {
			return nil, []string{client.CAEnv + client.FileSuffix + "=" + f.ca, client.CredentialEnv + client.FileSuffix + "=" + f.credential("a")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFortress(t)
			args, env := given(f)
			start := func(words ...string) (*growing, func() int) {
				cmd := f.command(append(append(words[:2:2], args...), words[2:]...)...)
				cmd.Env = append(cmd.Env, env...)
				said := &growing{}
				cmd.Stdout, cmd.Stderr = said, said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				return said, func() int {
					_ = cmd.Wait() // its code tells
					return shellCode(cmd.ProcessState)
				}
			}
			shown := func(name string) lock { return read[lock](t, f.must(0, "a", "show", "--json", name).stdout) }
			said, end := start("run", "a/long", "--ttl", "1h", "--", "sleep", "1000")
			watched, _ := start("leader", "a/long", "--watch")
			testwait.Until(t, bound, "the lease is held, and watched", func() bool {
				return len(shown("a/long").Holders) == 1 && strings.Contains(watched.String(), "fencing_token")
			})
			queued, granted := start("acquire", "a/long", "--wait", "50s")
			testwait.Until(t, bound, "somebody waits", func() bool { return len(shown("a/long").Waiters) == 1 })
			f.replace()
			f.must(0, "a", "break", "a/long", "--token", shown("a/long").Holders[0].FencingToken, "--reason", "to see who hears")
			testwait.Until(t, bound, "the holder hears it", func() bool { return strings.Contains(said.String(), "to see who hears") })
			if code := end(); code != exit.CodeLost {
				t.Errorf("the holder ended with %d: %s", code, said)
			}
			// It has nothing to report: the first attempt with the new credential was welcomed.
			if text := said.String(); strings.Contains(text, "refuses to renew") || strings.Contains(text, "answered again") {
				t.Errorf("the holder says %q", text)
			}
			if code := granted(); code != 0 {
				t.Errorf("the one in the queue ended with %d: %s", code, queued)
			}
			next := shown("a/long").Holders[0].FencingToken
			testwait.Until(t, bound, "the watcher sees the next", func() bool { return strings.Contains(watched.String(), next) })
		})
	}
}
