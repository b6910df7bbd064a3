package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// Whatever is asked, and of whom, and however it goes wrong: no credential is in
// what anybody prints, logs, lists or counts.
func TestNoSecretIsPrinted(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	debug := free.Addr().String()
	free.Close()
	f := newFortress(t, "--debug-listen", debug)
	stranger := "pawl_CANARY" + strings.Repeat("s", 32)
	if err := os.WriteFile(f.credential("stranger"), []byte(stranger+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.credential("broken"), []byte("pawl_CANARY with blanks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := []string{"CANARY", f.secret("a"), f.secret("root"), f.secret("eye")}
	var printed strings.Builder
	for _, who := range []string{"a", "eye", "root", "stranger", "broken"} {
		for _, args := range [][]string{
			{"status"},
			{"status", "--json"},
			{"ls"},
			{"ls", "--json"},
			{"show", "a/1"},
			{"leader", "a/1"},
			{"acquire", "a/1"},
			{"acquire", "b/1"},
			{"renew", "0123456789abcdef0123456789abcdef"},
			{"release", "0123456789abcdef0123456789abcdef"},
			{"run", "a/2", "--", "env"},
			{"run", "b/2", "--json", "--", "true"},
			{"elect", "a/3", "--", "true"},
			{"break", "a/1", "--token", "1", "--reason", "r"},
			{"trace", "a/4"},
			{"status", "--servers", "203.0.113.1:7420", "--ca", f.ca, "--help"},
			{"nonsense"},
		} {
			for _, by := range []string{client.CredentialEnv, client.CredentialEnv + client.FileSuffix} {
				value := f.credential(who)
				if by == client.CredentialEnv {
					value = f.secret(who)
				}
				cmd := f.command(args...)
				cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca, by+"="+value)
				r := finish(t, cmd)
				printed.WriteString(r.stdout + r.stderr)
				// Without TLS, to somebody else.
				cmd = f.command(append(args[:len(args):len(args)], "--servers", "203.0.113.1:7420")...)
				cmd.Env = append(cmd.Env, by+"="+value)
				if args[0] == "status" {
					r = finish(t, cmd)
					printed.WriteString(r.stdout + r.stderr)
				}
			}
		}
		for _, path := range []string{"/v1/status", "/v1/locks", "/metrics", "/openapi.json", "/nothing", "/v1/locks?name="} {
			if who == "broken" {
				continue
			}
			_, header, body := f.ask(who, http.MethodGet, path, "")
			printed.WriteString(body)
			for k, v := range header {
				printed.WriteString(k + strings.Join(v, ""))
			}
		}
	}
	for _, path := range []string{"cmdline", "goroutine?debug=2", "heap?debug=1", "allocs?debug=1", "threadcreate?debug=1"} {
		res, err := http.Get("http://" + debug + "/debug/pprof/" + path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
		printed.Write(raw)
	}
	printed.WriteString(f.said() + f.read(f.audit) + f.read(f.auth))
	if cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(f.cmd.Process.Pid) + "/cmdline"); err == nil {
		printed.Write(cmdline)
	}
	f.reload("auth file: in force")
	if printed.Len() < 10_000 {
		t.Errorf("only %d bytes were looked at", printed.Len())
	}
	for _, s := range secrets {
		if text := printed.String(); strings.Contains(text, s) {
			i := strings.Index(text, s)
			t.Errorf("a secret is in %q", text[max(i-200, 0):i+len(s)])
		}
	}
}

// The command under a lease, and the watcher over it, have no credential in their
// environment or on their command line; a path is no secret.
func TestCommandDoesNotInheritCredential(t *testing.T) {
	f := newFortress(t)
	for _, contain := range []string{"processes", "auto"} {
		cmd := f.command("run", "a/1", "--contain", contain, "--", "sh", "-c",
			`tr '\0' '\n' </proc/self/environ; for p in $$ $PPID; do tr '\0' '\n' </proc/$p/environ; tr '\0' '\n' </proc/$p/cmdline; done`)
		cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca, client.CredentialEnv+"="+f.secret("a"), client.KeyEnv+"=", "MARK=here")
		r := finish(t, cmd)
		if r.code != 0 {
			t.Fatalf("ended with %d\n%s", r.code, r.stderr)
		}
		if strings.Count(r.stdout, "MARK=here") < 3 {
			t.Errorf("too little was looked at:\n%s", r.stdout)
		}
		if strings.Contains(r.stdout, f.secret("a")) || strings.Contains(r.stdout, client.CredentialEnv+"=") {
			t.Errorf("the credential is in\n%s", r.stdout)
		}
	}
}

// A credential does not leave this machine without TLS, and there is no flag that
// takes one.
func TestCredentialNeedsTLS(t *testing.T) {
	secret := "pawl_" + strings.Repeat("x", 40)
	for _, args := range [][]string{{"status"}, {"run", "a", "--", "true"}, {"leader", "a", "--watch"}} {
		cmd := command(t, append(args[:1:1], append([]string{"--servers", "203.0.113.1:7420"}, args[1:]...)...)...)
		cmd.Env = append(cmd.Env, client.CredentialEnv+"="+secret)
		r := finish(t, cmd)
		if r.code != 64 || !strings.Contains(r.stderr, "over TLS or on this machine alone") || strings.Contains(r.stderr, secret) {
			t.Errorf("%q ended with %d: %s", args, r.code, r.stderr)
		}
	}
	want(t, 64, "status", "--credential", secret)
	for name, env := range map[string][]string{
		"twice":            {client.CredentialEnv + "=" + secret, client.CredentialEnv + client.FileSuffix + "=/dev/null"},
		"an empty file":    {client.CredentialEnv + client.FileSuffix + "=/dev/null"},
		"no file":          {client.CredentialEnv + client.FileSuffix + "=/nonexistent"},
		"a blank in it":    {client.CredentialEnv + "=a b"},
		"a lone key":       {client.KeyEnv + "=/dev/null", client.CAEnv + "=system"},
		"no authorities":   {client.CertEnv + "=c", client.KeyEnv + "=k"},
		"authorities gone": {client.CAEnv + "=/nonexistent"},
		"both of one":      {client.CAEnv + "=system", client.CAEnv + client.FileSuffix + "=/dev/null"},
	} {
		cmd := command(t, "status")
		cmd.Env = append(cmd.Env, env...)
		if r := finish(t, cmd); r.code != 64 {
			t.Errorf("%s: ended with %d: %s", name, r.code, r.stderr)
		}
	}
}

// PEM may stand in the environment itself.
func TestCertificatesFromTheEnvironment(t *testing.T) {
	f := newFortress(t)
	cert, key := f.clients.Issue("x", nil, "machine.example")
	cmd := f.command("run", "m/1", "--", "env")
	cmd.Env = append(cmd.Env, client.CAEnv+"="+f.read(f.ca), client.CertEnv+"="+f.read(cert), client.KeyEnv+"="+f.read(key))
	r := finish(t, cmd)
	if r.code != 0 || strings.Contains(r.stdout, "PRIVATE KEY") {
		t.Errorf("ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}

// C28: every credential is replaced while leases are held. A holder whose file has the
// new one keeps its lease. A holder with the old one is refused, and after it is killed
// its lease ends by its TTL.
func TestReplacedCredentialKeepsLease(t *testing.T) {
	f := newFortress(t)
	_, end := f.under("a", "a/kept", "--ttl", "1m")
	old := f.secret("a")
	cmd := f.command("run", "a/dead", "--ttl", "5s", "--", "sleep", "1000")
	cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca, client.CredentialEnv+"="+old)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "both are held", func() bool {
		names := f.as("eye", "ls").stdout
		return strings.Contains(names, "a/kept") && strings.Contains(names, "a/dead")
	})
	token := func() string {
		h := read[lock](t, f.must(0, "a", "show", "a/kept", "--json").stdout).Holders
		if len(h) != 1 {
			t.Fatalf("a/kept has the holders %+v", h)
		}
		return h[0].FencingToken
	}
	before := token()

	// The new files are there as soon as the server knows them.
	fresh := "identities:\n"
	for name, rights := range map[string][2]string{"a": {"a/", "read,hold,break"}, "eye": {"", "read"}, "root": {"", "admin"}} {
		if err := os.Remove(f.credential(name)); err != nil {
			t.Fatal(err)
		}
		fresh += want(t, 0, "auth", "new", name, "--prefix", rights[0], "--allow", rights[1], "--out", f.credential(name)).stdout
	}
	f.write(fresh)
	f.reload("auth file: in force")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := clock.Boottime()
	_ = cmd.Wait() // its code tells

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+f.http+"/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+old)
	res, err := f.web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the old credential is answered %d", res.StatusCode)
	}
	f.must(0, "a", "run", "a/dead", "-w", "1m", "--", "true")
	if took := clock.Boottime() - killed; took > 5*time.Second+20*time.Second {
		t.Errorf("the dead one's lease lasted %v after the kill; its TTL is 5s", took)
	}
	if after := token(); after != before {
		t.Errorf("a/kept was granted anew: %s, and %s before", after, before)
	}
	if code := end(); code != 0 {
		t.Errorf("the run with the new credential ended with %d", code)
	}
}
