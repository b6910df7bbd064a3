package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// fortress is a server with TLS and an auth file.
type fortress struct {
	*served
	dir, ca, auth, audit string
	clients              *testcert.Authority
	web                  *http.Client
}

// identity draws a credential and adds an identity to the auth file.
func (f *fortress) identity(name, prefix, allow string) {
	f.t.Helper()
	entry := want(f.t, 0, "auth", "new", name, "--prefix", prefix, "--allow", allow, "--out", f.credential(name)).stdout
	f.write(f.read(f.auth) + entry)
}

func (f *fortress) credential(of string) string { return filepath.Join(f.dir, of+".credential") }

func (f *fortress) secret(of string) string {
	return strings.TrimSpace(f.read(f.credential(of)))
}

func (f *fortress) read(path string) string {
	f.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(raw)
}

func (f *fortress) write(auth string) {
	f.t.Helper()
	if err := os.WriteFile(f.auth, []byte(auth), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// reload has the server read its files again, and waits for what it says of the
// auth file.
func (f *fortress) reload(expected string) {
	f.t.Helper()
	before := strings.Count(f.said(), expected)
	if err := f.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		f.t.Fatal(err)
	}
	testwait.Until(f.t, bound, expected, func() bool { return strings.Count(f.said(), expected) > before })
}

func newFortress(t testing.TB, args ...string) *fortress {
	t.Helper()
	return newFortressBy(t, serve, args...)
}

// newFortressBy is a fortress whose server is started by start.
func newFortressBy(t testing.TB, start func(t testing.TB, args ...string) *served, args ...string) *fortress {
	t.Helper()
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("server", nil)
	f := &fortress{dir: dir, ca: ca.File, auth: filepath.Join(dir, "auth.yaml"), audit: filepath.Join(dir, "audit.log"), clients: testcert.New(t, dir, "clients")}
	f.served = &served{t: t}
	f.write("identities:\n")
	f.identity("a", "a/", "read,hold,break")
	f.identity("eye", "", "read")
	f.identity("root", "", "admin")
	f.write(f.read(f.auth) + "  - name: machine\n    certificates: [\"dns:machine.example\"]\n    rights: [{prefix: m/, allow: [hold, read]}]\n")
	f.served = start(t, append([]string{
		"--store", "memory", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", f.clients.File,
		"--auth-file", f.auth, "--audit-log", f.audit, "--log-level", "debug",
	}, args...)...)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(f.read(f.ca)))
	f.web = &http.Client{Timeout: bound, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	return f
}

// as runs a command with somebody's credential; nobody's: "".
func (f *fortress) as(who string, args ...string) result {
	f.t.Helper()
	cmd := f.command(args...)
	cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca)
	if who != "" {
		cmd.Env = append(cmd.Env, client.CredentialEnv+client.FileSuffix+"="+f.credential(who))
	}
	return finish(f.t, cmd)
}

func (f *fortress) must(code int, who string, args ...string) result {
	f.t.Helper()
	r := f.as(who, args...)
	if r.code != code {
		f.t.Fatalf("%q as %q ended with %d, expected %d\nstdout: %s\nstderr: %s", args, who, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// ask sends a request over HTTP.
func (f *fortress) ask(who, method, path, body string) (int, http.Header, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, "https://"+f.http+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+f.secret(who))
	}
	res, err := f.web.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// audited waits until the audit log, which is written behind what it tells of, has
// all parts.
func (f *fortress) audited(parts ...string) {
	f.t.Helper()
	for _, p := range parts {
		testwait.Until(f.t, bound, "the audit log has "+p, func() bool { return strings.Contains(f.read(f.audit), p) })
	}
}

func TestRightsOnCommandLine(t *testing.T) {
	f := newFortress(t)
	held := read[lease](t, f.must(0, "a", "acquire", "a/1").stdout)
	// A label is what a holder says of itself, its identity is who it is.
	contains(t, f.must(0, "eye", "show", "--json", "a/1").stdout, `"identity":"a"`)
	for _, c := range []struct {
		code int
		who  string
		args []string
	}{
		{77, "", []string{"status"}},
		{77, "", []string{"acquire", "a/2"}},
		{77, "a", []string{"acquire", "b/1"}},
		{77, "a", []string{"show", "b/1"}},
		{77, "a", []string{"run", "b/1", "--", "true"}},
		{77, "a", []string{"elect", "b/1", "--", "true"}},
		{77, "a", []string{"leader", "b/1"}},
		{77, "a", []string{"leader", "b/1", "--watch"}},
		{77, "eye", []string{"acquire", "a/2"}},
		{77, "eye", []string{"run", "a/2", "--", "true"}},
		{77, "eye", []string{"break", "a/1", "--token", held.FencingToken, "--reason", "r"}},
		{70, "root", []string{"renew", held.Lease}},
		{70, "root", []string{"release", held.Lease}},
		{0, "eye", []string{"ls"}},
		{0, "eye", []string{"show", "a/1"}},
		{0, "a", []string{"run", "a/2", "--", "true"}},
		{0, "a", []string{"renew", held.Lease}},
		{0, "root", []string{"break", "a/1", "--token", held.FencingToken, "--reason", "r"}},
		{0, "a", []string{"release", held.Lease}},
	} {
		f.must(c.code, c.who, c.args...)
	}
	contains(t, f.must(0, "root", "status").stdout, "TLS, callers prove who they are", "token counter")
	if out := f.must(0, "a", "status").stdout; strings.Contains(out, "counter") || !strings.Contains(out, "admin of all names") {
		t.Errorf("status for who is not admin:\n%s", out)
	}
	// By a certificate.
	cert, key := f.clients.Issue("x", nil, "machine.example")
	f.must(0, "", "acquire", "m/1", "--cert", cert, "--key", key)
	f.must(77, "", "acquire", "a/2", "--cert", cert, "--key", key)
	cert, key = f.clients.Issue("y", nil, "stranger.example")
	f.must(77, "", "acquire", "m/2", "--cert", cert, "--key", key)
}

func TestRightsOverHTTP(t *testing.T) {
	f := newFortress(t)
	for _, c := range []struct {
		code              int
		who, method, path string
		body, inTheAnswer string
	}{
		{200, "", "GET", "/livez", "", "ok"},
		{200, "", "GET", "/readyz", "", "active"},
		{200, "", "GET", "/metrics", "", "pawl_streams"},
		{401, "", "GET", "/openapi.json", "", "unauthenticated"},
		{200, "eye", "GET", "/openapi.json", "", "openapi"},
		{401, "", "GET", "/v1/locks", "", "unauthenticated"},
		{401, "", "POST", "/v1/leases", "{nonsense", "unauthenticated"},
		{200, "a", "POST", "/v1/leases", `{"name":"a/1"}`, "fencing_token"},
		{403, "a", "POST", "/v1/leases", `{"name":"b/1"}`, "denied"},
		{403, "a", "POST", "/v1/leases", `{"names":["a/2","b/1"]}`, "denied"},
		{403, "eye", "POST", "/v1/leases", `{"name":"a/1"}`, "denied"},
		{409, "a", "POST", "/v1/leases", `{"name":"a/1"}`, "held"},
		{200, "eye", "GET", "/v1/locks?name=a/1", "", "a/1"},
		{403, "a", "GET", "/v1/locks?name=b/1", "", "denied"},
		{403, "eye", "POST", "/v1/break", `{"name":"a/1","fencing_token":"1","reason":"r"}`, "denied"},
		{200, "a", "GET", "/v1/status", "", `"partial":true`},
		{200, "root", "GET", "/v1/status", "", `"sessions":1`},
	} {
		code, header, body := f.ask(c.who, c.method, c.path, c.body)
		if code != c.code || !strings.Contains(body, c.inTheAnswer) {
			t.Errorf("%q %s %s %s: %d %s", c.who, c.method, c.path, c.body, code, body)
		}
		if challenge := header.Get("WWW-Authenticate"); (challenge != "") != (code == 401) {
			t.Errorf("%s %s: %d with the challenge %q", c.method, c.path, code, challenge)
		}
	}
	_, _, metrics := f.ask("", "GET", "/metrics", "")
	contains(t, metrics, "\npawl_requests_denied_total 5\n", "\npawl_requests_unauthenticated_total 3\n", "\npawl_streams 0\n")
	f.audited(`"verb":"POST /v1/leases","outcome":"unauthenticated"`,
		`"identity":"a"`, `"names":["b/1"],"outcome":"denied"`)
}

// A file that cannot be used leaves the old one in force; one that can puts out
// whom it does not name.
func TestAuthFileIsReloaded(t *testing.T) {
	f := newFortress(t)
	if code := f.as("a", "acquire", "a/1").code; code != 0 {
		t.Fatalf("code %d", code)
	}
	good := f.read(f.auth)
	f.write(good + "  - nonsense")
	f.reload("auth file: the new one cannot be used")
	contains(t, f.said(), "line ")
	f.must(0, "a", "acquire", "a/2")
	// An identity that is no longer named loses what it holds by its TTL at the latest,
	// and is not let in again.
	cmd := f.command("run", "a/3", "--ttl", "3s", "--", "sleep", "300")
	cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca, client.CredentialEnv+"="+f.secret("a"))
	running := make(chan result, 1)
	go func() { running <- finish(t, cmd) }()
	testwait.Until(t, bound, "a/3 is held", func() bool { return strings.Contains(f.must(0, "eye", "ls").stdout, "a/3") })
	f.write(strings.Replace(good, f.entry("a"), "", 1))
	f.reload("auth file: in force")
	if r := <-running; r.code != 70 {
		t.Errorf("the run ended with %d\n%s", r.code, r.stderr)
	}
	f.must(77, "a", "acquire", "a/4")
	testwait.Until(t, bound, "a/3 is free", func() bool { return !strings.Contains(f.must(0, "eye", "ls").stdout, "a/3") })
	f.audited(`"identity":"a"`, `"outcome":"put out"`, `"verb":"expired","names":["a/3"]`)
	f.write(good)
	f.reload("auth file: in force")
	f.must(0, "a", "acquire", "a/5")
	// An identity with changed rights has its stream ended, and goes on in the next
	// one with what it holds.
	stop := filepath.Join(f.dir, "stop")
	cmd = f.command("run", "a/6", "--ttl", "20s", "--", "sh", "-c", "until [ -e "+stop+" ]; do sleep 0.05; done")
	cmd.Env = append(cmd.Env, client.CAEnv+"="+f.ca, client.CredentialEnv+"="+f.secret("a"))
	go func() { running <- finish(t, cmd) }()
	testwait.Until(t, bound, "a/6 is held", func() bool { return strings.Contains(f.must(0, "eye", "ls").stdout, "a/6") })
	attached := func() int { return strings.Count(f.read(f.audit), `"verb":"attach"`) }
	testwait.Until(t, bound, "its stream is noted", func() bool { return attached() > 0 })
	before := attached()
	f.write(strings.Replace(good, `{prefix: "a/", allow: [read, hold, break]}`, `{prefix: "a/", allow: [read, hold]}`, 1))
	f.reload("auth file: in force")
	testwait.Until(t, bound, "it has another stream", func() bool { return attached() > before })
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-running; r.code != 0 {
		t.Errorf("the run ended with %d\n%s", r.code, r.stderr)
	}
	if code := f.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("stopped with %d", code)
	}
}

// Removing a right takes no lease from its holder: only the end of
// its session does, or a break.
func TestLeaseSurvivesRemovedRight(t *testing.T) {
	f := newFortress(t)
	code, _, body := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/1","ttl":"1h"}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	var l struct {
		Lease, Session string
		FencingToken   string `json:"fencing_token"`
	}
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		t.Fatal(err)
	}
	f.write(strings.Replace(f.read(f.auth), `{prefix: "a/", allow: [read, hold, break]}`, `{prefix: "elsewhere/", allow: [hold]}`, 1))
	f.reload("auth file: in force")
	for _, c := range []struct {
		path, body string
		code       int
	}{
		{"/v1/leases/" + l.Lease + "/renew", "", http.StatusOK},
		{"/v1/sessions/" + l.Session + "/renew", "", http.StatusOK},
		{"/v1/leases", `{"name":"a/2"}`, http.StatusForbidden},
		{"/v1/leases", `{"name":"a/2","request_id":"r","session":"` + l.Session + `"}`, http.StatusForbidden},
		{"/v1/break", `{"name":"a/1","fencing_token":"` + l.FencingToken + `","reason":"r"}`, http.StatusForbidden},
	} {
		if code, _, body := f.ask("a", http.MethodPost, c.path, c.body); code != c.code {
			t.Errorf("%s: %d %s", c.path, code, body)
		}
	}
	if code, _, _ := f.ask("a", http.MethodGet, "/v1/locks?name=a/1", ""); code != http.StatusForbidden {
		t.Errorf("it is shown what it may not read: %d", code)
	}
	f.must(0, "root", "break", "a/1", "--token", l.FencingToken, "--reason", "it may not any more", "--now")
	if code, _, body := f.ask("a", http.MethodPost, "/v1/leases/"+l.Lease+"/renew", ""); code != http.StatusNotFound {
		t.Errorf("after the break: %d %s", code, body)
	}
}

// entry is what stands in the auth file of an identity.
func (f *fortress) entry(name string) string {
	f.t.Helper()
	text := f.read(f.auth)
	_, rest, _ := strings.Cut(text, "  - name: \""+name+"\"")
	rest, _, _ = strings.Cut(rest, "  - name:")
	return "  - name: \"" + name + "\"" + rest
}

func TestNonLoopbackAddressNeedsTLSAndAuthFile(t *testing.T) {
	dir := t.TempDir()
	cert, key := testcert.New(t, dir, "ca").Issue("server", nil)
	auth := writeFile(t, "auth.yaml", "identities: []")
	secured := []string{"--tls-cert", cert, "--tls-key", key}
	named := []string{"--auth-file", auth}
	both := append(append([]string{}, secured...), named...)
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{64, nil, "without TLS (--tls-cert, --tls-key) and an auth file (--auth-file) only"},
		{64, secured, "without an auth file (--auth-file) only"},
		{64, named, "without TLS (--tls-cert, --tls-key) only"},
		{64, append([]string{"--debug-listen", "0.0.0.0:0"}, both...), "--debug-listen is 0.0.0.0:0, which others can reach: for profiles"},
		{64, []string{"--tls-cert", cert}, ""},
		{64, []string{"--tls-client-ca", cert}, ""},
		{64, []string{"--audit-required"}, ""},
		{69, append([]string{"--auth-file", "/nonexistent"}, secured...), ""},
		{69, append([]string{"--tls-cert", key, "--tls-key", cert}, named...), ""},
		{69, append([]string{"--audit-log", "/nonexistent/log"}, both...), ""},
	} {
		r := want(t, c.code, append([]string{"serve", "--store", "memory", "--listen", "0.0.0.0:0", "--http", "off"}, c.args...)...)
		contains(t, r.stderr, c.says)
	}
	s := serve(t, append([]string{"--store", "memory", "--listen", "0.0.0.0:0", "--http", "0.0.0.0:0"}, both...)...)
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// That a server which wants to know who asks has the address already is told like
// that of any other.
func TestPortInUseByTLSServerIsReported(t *testing.T) {
	f := newFortress(t)
	for _, at := range [][]string{{"--listen", f.link, "--http", "off"}} {
		r := want(t, 69, append([]string{"serve", "--store", "memory"}, at...)...)
		contains(t, r.stderr, "a pawl server answers there already")
	}
}

// A hang-up stops a server that has nothing to read again, as it does by default.
func TestHangUpStopsServerWithoutFiles(t *testing.T) {
	if code := serve(t, "--store", "memory").stop(syscall.SIGHUP); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

func TestAuthCommands(t *testing.T) {
	out := filepath.Join(t.TempDir(), "c")
	entry := want(t, 0, "auth", "new", "n", "--prefix", "p/", "--out", out).stdout
	st, err := os.Stat(out)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(entry, strings.TrimSpace(string(raw))) {
		t.Errorf("the entry holds the credential:\n%s", entry)
	}
	cmd := command(t, "auth", "hash")
	cmd.Stdin = strings.NewReader(string(raw))
	if r := finish(t, cmd); r.code != 0 || !strings.Contains(entry, strings.TrimSpace(r.stdout)) {
		t.Errorf("hash: %d %q %q", r.code, r.stdout, r.stderr)
	}
	for _, short := range []string{"", "hunter2", strings.Repeat("x", 31), strings.Repeat("x", 40) + " x"} {
		cmd := command(t, "auth", "hash")
		cmd.Stdin = strings.NewReader(short)
		if r := finish(t, cmd); r.code != 64 || short != "" && strings.Contains(r.stderr, short) {
			t.Errorf("hash of %q: %d %s", short, r.code, r.stderr)
		}
	}
	want(t, 1, "auth", "new", "n", "--prefix", "p/", "--out", out)
	want(t, 64, "auth", "new", "n")
	want(t, 64, "auth", "new", "n", "--prefix", "p/", "--allow", "write")
	want(t, 64, "auth", "new", "a\nb", "--prefix", "p/")
	good := writeFile(t, "good.yaml", "identities:\n"+entry)
	contains(t, want(t, 0, "auth", "check", good).stdout, "1 identity\n")
	contains(t, want(t, 64, "auth", "check", writeFile(t, "bad.yaml", "identities:\n- nam: x")).stderr, "line 2")
	contains(t, want(t, 0, "auth", "new", "n", "--prefix", "").stdout, "pawl_", "sha256:")
	// Lines without a head are told what they lack.
	contains(t, want(t, 64, "auth", "check", writeFile(t, "headless.yaml", entry)).stderr, `"identities:" is missing at its top`)
}

// From nothing to a file that a server takes.
func TestAuthNewMakesUsableFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "auth.yaml")
	out := func(name string) string { return filepath.Join(dir, name+".credential") }
	for n, name := range []string{"a", "b"} {
		there := []string{"1 identity\n", "2 identities\n"}[n]
		r := want(t, 0, "auth", "new", name, "--prefix", name+"/", "--out", out(name), "--file", file)
		if r.stdout != "" || !strings.Contains(r.stderr, "HUP") {
			t.Errorf("it says %+v", r)
		}
		if r := want(t, 0, "auth", "check", file); r.stderr != "" || r.stdout != there {
			t.Errorf("the file is found to be %+v", r)
		}
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, want(t, 64, "auth", "new", "a", "--prefix", "x/", "--out", out("again"), "--file", file).stderr, "has the identity a already", `put the hash of one (pawl auth hash) into its "credentials:"`)
	if _, err := os.Stat(out("again")); err == nil {
		t.Error("there is a credential of an identity that there is not")
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed to\n%s", after)
	}
	if r := want(t, 0, "auth", "new", "c", "--prefix", "c/", "--file", file); !strings.Contains(r.stdout, "pawl_") || strings.Contains(r.stdout, "sha256") {
		t.Errorf("without --out it prints %q", r.stdout)
	}
	want(t, 1, "auth", "new", "d", "--prefix", "d/", "--file", dir)
}
