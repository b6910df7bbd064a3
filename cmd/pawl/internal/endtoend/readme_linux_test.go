package endtoend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlproject/pawl/internal/testwait"
)

// readmes have requests that can be typed.
var readmes = []string{"README.md", "README.ja.md"}

// block returns the code under the mark `<!-- test: what -->`.
func block(t *testing.T, file, what string) string {
	t.Helper()
	text, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)<!-- test: "+what+" -->\n```[a-z]*\n(.*?)\n```").FindAllSubmatch(text, -1)
	if len(m) != 1 {
		t.Fatalf("%s has %d blocks marked `<!-- test: %s -->`; expected one", file, len(m), what)
	}
	return string(m[0][1])
}

// The README's program is built as a user's module outside of the workspace, and
// does what the README says.
func TestReadmeProgram(t *testing.T) {
	wholly(t)
	program := block(t, "README.md", "go")
	s := newServer(t)
	s.up()
	dir := built(t, s, program, "modernc.org/sqlite")

	// It may be run again: nothing that it leaves behind is in its way.
	for range 2 {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "example"))
		cmd.Dir = dir
		r := finish(t, cmd)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		if r.code != 0 || r.stderr != "" || len(lines) != 2 || lines[0] != "billed" {
			t.Fatalf("the README's program ended with %v", r)
		}
		if !regexp.MustCompile(`stale fencing token \d+ for "orders/7", which has seen \d+`).MatchString(lines[1]) {
			t.Errorf("a token from the past was answered with %q", lines[1])
		}
		if held := s.lookUp("orders/7"); len(held.Holders) != 0 {
			t.Errorf("the program left its lease behind: %+v", held)
		}
	}

	// Several that are started together on a new file take turns.
	together := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "example"))
		cmd.Dir = together
		all.Go(func() {
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "billed\n") {
				t.Errorf("one of several README's programs: %v\n%s", err, out)
			}
		})
	}
	all.Wait()
}

// built builds a program of the documentation, which dials the server's default address,
// in a user's module with the README's lines and others' modules. It returns the folder,
// where the program is "example".
func built(t *testing.T, s *server, program string, modules ...string) (dir string) {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	lines := block(t, "README.md", "gomod")
	mod := "module example\n\ngo 1.26\n\n"
	for _, m := range modules {
		mod += "require " + m + " " + versionOf(t, m) + "\n"
	}
	mod += strings.ReplaceAll(lines, "=> ../pawl", "=> "+top) + "\n"
	if lines != block(t, "README.ja.md", "gomod") || strings.Count(mod, "=> "+top) != 4 {
		t.Errorf("the README says of go.mod\n%s", lines)
	}
	if !strings.Contains(program, `"`+linkDefault+`"`) || strings.Contains(program, "Getenv") {
		t.Errorf("the program does not run as it stands against a server at its default address, %s", linkDefault)
	}
	program = strings.ReplaceAll(program, linkDefault, s.link)
	for name, text := range map[string]string{"main.go": program, "go.mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goTool := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	goTool("build", "-o", "example", ".")
	if out := goTool("vet", "."); out != "" {
		t.Errorf("go vet: %s", out)
	}
	return dir
}

// versionOf is the version of a module that the workspace is tested with: which ones a
// proxy has is not ours to ask.
func versionOf(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

const (
	linkDefault = "127.0.0.1:7420"
	httpDefault = "127.0.0.1:7421"
)

// The README's curl lines, one after the other as somebody types them, in every
// shell that is there: what one of them would expand is quoted.
func TestReadmeCurl(t *testing.T) {
	s := newServer(t)
	s.up()
	contains(t, s.want(0, "serve", "--help").stdout, linkDefault, httpDefault)
	for _, readme := range readmes {
		for _, shell := range []string{"sh", "bash", "zsh"} {
			if _, err := exec.LookPath(shell); errors.Is(err, exec.ErrNotFound) {
				continue
			}
			t.Run(readme+"/"+shell, func(t *testing.T) { readmeCurl(t, s, block(t, readme, "curl"), shell) })
		}
	}
}

func readmeCurl(t *testing.T, s *server, script, shell string) {
	var granted map[string]any
	lease, dir := "", t.TempDir()
	seen := map[string]bool{}
	run := func(line string) result {
		cmd := exec.CommandContext(t.Context(), shell, "-c", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LEASE="+lease)
		return finish(t, cmd)
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if answer, ok := strings.CutPrefix(line, "# {"); ok {
			for _, key := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(answer, -1) {
				if granted[key[1]] == nil {
					t.Errorf("the README shows %q, which the answer does not have: %v", key[1], granted)
				}
			}
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "LEASE=") {
			if lease = run(line + "\nprintf %s \"$LEASE\"").stdout; lease == "" || lease != granted["lease"] {
				t.Fatalf("%q finds %q in %v", line, lease, granted)
			}
			continue
		}
		if !strings.Contains(line, httpDefault) {
			t.Fatalf("the line %q asks no server on %s", line, httpDefault)
		}
		if unquoted := regexp.MustCompile(`'[^']*'`).ReplaceAllString(strings.Split(line, " #")[0], ""); strings.ContainsAny(unquoted, "?&*[{") {
			t.Errorf("%q holds what a shell expands (zsh: no matches found)", line)
		}
		r := run(strings.ReplaceAll(line, httpDefault, s.http))
		if r.code != 0 || strings.Contains(r.stdout, `"reason"`) {
			t.Fatalf("%q: %v", line, r)
		}
		answer := read[map[string]any](t, r.stdout)
		fits := true
		switch what := requestOf(line); what {
		case "grant":
			granted = answer
			fits = answer["name"] == "orders/7" && answer["ttl"] == "10s" && answer["lease"] != nil
			seen[what] = true
		case "renewal":
			fits = answer["ttl"] == "10s" && answer["session"] == granted["session"]
			seen[what] = true
		case "list":
			locks, _ := answer["locks"].([]any)
			fits = len(locks) == 1
		case "release":
			fits = len(answer) == 0
			seen[what] = true
		}
		if !fits {
			t.Errorf("%q was answered with %s", line, r.stdout)
		}
	}
	if len(seen) != 3 {
		t.Errorf("the README shows only %v", seen)
	}
}

func requestOf(line string) string {
	switch {
	case strings.Contains(line, "/renew"):
		return "renewal"
	case strings.Contains(line, "/v1/locks"):
		return "list"
	case strings.Contains(line, "-X DELETE"):
		return "release"
	}
	return "grant"
}

// The README's `pawl run` line and its commands.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile(root + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^pawl (run .*?)\s+# (.*)$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("README.md shows no pawl run")
	}
	s := newServer(t)
	s.up()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$PAWL_FENCE $PAWL_CELL\"\n"
	if err := os.WriteFile(filepath.Join(dir, "backup.sh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := s.command(bound, strings.Fields(m[1])...)
	cmd.Dir = dir
	r := finish(t, cmd)
	if f := strings.Fields(r.stdout); r.code != 0 || len(f) != 2 || !strings.HasPrefix(f[1], "default-") {
		t.Errorf("pawl %s: %v", m[1], r)
	}
	for _, name := range regexp.MustCompile(`PAWL_[A-Z_]+`).FindAllString(m[2], -1) {
		if !strings.Contains(script, name) {
			t.Errorf("the README promises the command %s, which this test does not look at", name)
		}
	}
	help := s.want(0, "help").stdout
	line := regexp.MustCompile("(?s)`pawl help` lists the other commands: (.*?)\\.\\s").FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("README.md does not list the commands")
	}
	for _, c := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(line[1], -1) {
		contains(t, help, "\n  "+c[1]+" ")
	}
}

// The script of docs/http.md keeps its place over a proxy that cuts its requests, and is
// granted the name when it is free.
func TestDocumentedWaitBehindProxy(t *testing.T) {
	s := newServer(t)
	s.up()
	holder := read[struct{ Lease string }](t, s.want(0, "acquire", "orders/7", "--ttl", "1h").stdout)
	cuts := make(chan struct{})
	var requests atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-cuts:
				cancel()
			case <-ctx.Done():
			}
		}()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		on, err := http.NewRequestWithContext(ctx, r.Method, "http://"+s.http+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := http.DefaultClient.Do(on)
		if err != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body) // its reader may be gone
	}))
	defer proxy.Close()
	dir := t.TempDir()
	script := block(t, "docs/http.md", "wait")
	if !strings.Contains(script, httpDefault) {
		t.Fatalf("the script asks no server on %s", httpDefault)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, "http://"+httpDefault, proxy.URL))
	cmd.Dir = dir
	b := begin(t, cmd)
	for n := int64(1); n <= 2; n++ {
		testwait.Until(t, bound, "it asks", func() bool { return requests.Load() == n })
		s.waits("orders/7", 1)
		cuts <- struct{}{}
	}
	testwait.Until(t, bound, "it asks again", func() bool { return requests.Load() == 3 })
	s.waits("orders/7", 1)
	s.want(0, "release", holder.Lease)
	if r := b.end(); r.code != 0 {
		t.Fatalf("the script ended with %v", r)
	}
	lease, err := os.ReadFile(filepath.Join(dir, "lease.json"))
	if err != nil || read[map[string]any](t, string(lease))["name"] != "orders/7" {
		t.Errorf("lease.json has %s, %v", lease, err)
	}
}
