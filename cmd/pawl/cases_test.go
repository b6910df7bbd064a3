package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// C72: how long others wait after a run was killed is short unless somebody says
// otherwise, is in the help, and is what they wait.
func TestACrashCostsATTL(t *testing.T) {
	flag := regexp.MustCompile(`--ttl \S+ +.*after a crash.*\(default (\S+)\)`)
	m := flag.FindStringSubmatch(want(t, 0, "run", "--help").stdout)
	if m == nil {
		t.Fatal("the help of run does not say what a crash costs")
	}
	if d, err := time.ParseDuration(m[1]); err != nil || d < 5*time.Second || d > 15*time.Second {
		t.Errorf("the default TTL is %s", m[1])
	}
	s := serve(t, "--store", "memory")
	const ttl = 4 * time.Second
	for _, args := range [][]string{{"--ttl", ttl.String()}, nil} {
		cmd := s.command(append(append([]string{"run", "a"}, args...), "--", "sleep", "1000")...)
		began := clock.Boottime()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		childOf(t, cmd.Process.Pid, "sleep")
		if args == nil {
			_, text := s.get("/v1/locks?name=a")
			listed := regexp.MustCompile(`"expires_in":"([^"]+)"`).FindStringSubmatch(text)
			if listed == nil {
				t.Fatalf("the listing is %s", text)
			}
			left, err := time.ParseDuration(listed[1])
			if most, _ := time.ParseDuration(m[1]); err != nil || left > most || left <= ttl {
				t.Errorf("the help says %s; the listing that it expires in %s", m[1], listed[1])
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := clock.Boottime()
		_ = cmd.Wait() // its code tells
		if args == nil {
			continue
		}
		s.want(0, "run", "a", "-w", "1m", "--", "true")
		// How long before the kill it last renewed is the machine's doing, but it was
		// granted after it began.
		if now := clock.Boottime(); now-began < ttl || now-killed > ttl+20*time.Second {
			t.Errorf("the next one ran %v after the kill, %v after the beginning; the TTL is %v", now-killed, now-began, ttl)
		}
	}
}

// C58: a job is shorter than the clocks of its machines are apart. A lease alone
// lets each of them run it, one after the other; what docs/cli.md says for this
// lets one.
func TestOncePerSlot(t *testing.T) {
	s := serve(t, "--store", "memory")
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)<!-- test: slot -->\n```sh\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/cli.md does not say how something is done once")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program("once", string(m[1]))
	program("report", "#!/bin/sh\necho ran >> "+dir+"/ran\n")
	if err := os.Symlink(self, filepath.Join(dir, "pawl")); err != nil {
		t.Fatal(err)
	}
	// Three machines for which it becomes the same minute one after the other.
	three := func(minute string, argv ...string) (runs int, codes []int) {
		program("date", "#!/bin/sh\necho "+minute+"\n")
		_ = os.Remove(filepath.Join(dir, "ran")) // there may be none yet
		for range 3 {
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, append(s.command().Env, "PATH="+dir+":"+os.Getenv("PATH"))
			r := finish(t, cmd)
			codes = append(codes, r.code)
			testwait.Until(t, bound, "the work is over", func() bool {
				return s.want(0, "ls", "--json", "nightly").stdout == ""
			})
		}
		raw, err := os.ReadFile(filepath.Join(dir, "ran"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "ran"), codes
	}
	if runs, codes := three("2026-01-01T00:00", "./pawl", "run", "nightly", "-n", "--", "./report"); runs != 3 {
		t.Errorf("under a lease alone it ran %d times, %v", runs, codes)
	}
	for _, minute := range []string{"2026-01-01T00:00", "2026-01-01T00:01"} {
		if runs, codes := three(minute, "./once"); runs != 1 || fmt.Sprint(codes) != "[0 75 75]" {
			t.Errorf("%s: once ran it %d times, %v", minute, runs, codes)
		}
	}
}

// word is whatever could be an id.
var word = regexp.MustCompile(`[0-9A-Za-z_-]{8,}`)

// C74: somebody without rights to a name sees all that is printed of its lease, in
// listings, status, metrics and logs, and tries each word of it as the id of a
// lease and of a session, and the real ids, too. Nothing ends, nothing is renewed,
// and nothing of the name is told.
func TestNothingThatIsPrintedActs(t *testing.T) {
	f := newFortress(t)
	f.identity("b", "b/", "read,hold,break")
	f.reload("auth file: in force")
	code, _, body := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/secret-name","ttl":"1h","label":"label-of-a"}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	l := read[lease](t, body)
	said, end := f.under("a", "a/run", "--ttl", "1h", "--label", "label-of-run")
	testwait.Until(t, bound, "it is held", func() bool { return strings.Contains(f.as("eye", "ls").stdout, "a/run") })

	var shown strings.Builder
	for _, path := range []string{"/v1/locks", "/v1/locks?name=a/run", "/v1/status", "/metrics"} {
		_, _, text := f.ask("root", http.MethodGet, path, "")
		shown.WriteString(text)
	}
	shown.WriteString(f.must(0, "root", "show", "a/run", "--json").stdout)
	_, _, held := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/secret-name"}`)
	f.audited(`"names":["a/run"]`, `"names":["a/secret-name"]`)
	shown.WriteString(held + said.String() + f.said() + f.read(f.audit))
	for _, id := range []string{l.Lease, l.Session} {
		if strings.Contains(shown.String(), id) {
			t.Errorf("the id %.4s… is printed", id)
		}
	}
	words := map[string]bool{l.Lease: true, l.Session: true}
	for _, w := range word.FindAllString(shown.String(), -1) {
		words[w] = true
	}
	if len(words) < 30 {
		t.Fatalf("only %d words are printed", len(words))
	}
	for w := range words {
		for _, who := range []string{"b", "a"} {
			if who == "a" && (w == l.Lease || w == l.Session) {
				continue
			}
			for _, r := range [][2]string{
				{http.MethodPost, "/v1/leases/" + w + "/renew"},
				{http.MethodDelete, "/v1/leases/" + w},
				{http.MethodPost, "/v1/sessions/" + w + "/renew"},
				{http.MethodDelete, "/v1/sessions/" + w},
			} {
				code, _, body := f.ask(who, r[0], r[1], "")
				if code != http.StatusNotFound && code != http.StatusBadRequest || strings.Contains(body, "secret-name") || strings.Contains(body, "label-of") {
					t.Errorf("%s %s as %s: %d %s", r[0], r[1], who, code, body)
				}
			}
		}
	}
	for _, r := range [][3]string{
		{http.MethodPost, "/v1/break", `{"name":"a/secret-name","fencing_token":"` + l.FencingToken + `","reason":"r","now":true}`},
		{http.MethodGet, "/v1/locks?name=a/secret-name", ""},
		{http.MethodPost, "/v1/leases", `{"name":"b/1","request_id":"r","session":"` + l.Session + `"}`},
	} {
		code, _, body := f.ask("b", r[0], r[1], r[2])
		if code != http.StatusForbidden && code != http.StatusNotFound || strings.Contains(body, "label-of") {
			t.Errorf("%s %s: %d %s", r[0], r[1], code, body)
		}
	}
	if code, _, body := f.ask("b", http.MethodGet, "/v1/locks", ""); code != http.StatusForbidden && strings.Contains(body, "a/") {
		t.Errorf("a listing for who may read b/ alone: %d %s", code, body)
	}
	if now := read[lock](t, f.must(0, "eye", "show", "a/secret-name", "--json").stdout); len(now.Holders) != 1 || now.Holders[0].FencingToken != l.FencingToken {
		t.Errorf("afterwards it is %+v", now)
	}
	if code := end(); code != 0 {
		t.Errorf("the run ended with %d: %s", code, said.String())
	}
}

// C28: every credential is replaced under a holder. One that has the new one, in
// the file that it was told, keeps its lease; one that has not is told why, and its
// lease ends by its TTL after it is killed, whosever credentials are good.
func TestCredentialsAreReplaced(t *testing.T) {
	f := newFortress(t)
	_, end := f.under("a", "a/kept", "--ttl", "1m")
	old := f.secret("a")
	cmd := f.command("run", "a/dead", "--ttl", "5s", "--", "sleep", "1000")
	cmd.Env = append(cmd.Env, caEnv+"="+f.ca, credentialEnv+"="+old)
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

// C86: every caller that asks for a lease's token gets the same answer, over
// restarts too; and every later one is higher.
func TestOneTokenWhoeverAsks(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	last := uint64(0)
	for round := range testwait.Reps(4) {
		s := serve(t, "--data", data)
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		c, err := pawl.Dial(ctx, []string{s.link}, pawl.Options{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		granted := strconv.FormatUint(uint64(l.Token()), 10)
		told := map[string]string{"fence of the SDK": strconv.FormatUint(uint64(l.Fence().Token), 10)}
		_, err = c.TryAcquire(ctx, "a")
		var held *pawl.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("a second one: %v", err)
		}
		told["refusal of the SDK"] = strconv.FormatUint(uint64(held.Token), 10)
		told["show"] = s.show("a").Holders[0].FencingToken
		_, text := s.get("/v1/locks?name=a")
		var page struct {
			Locks []struct {
				Holders []struct {
					Token any `json:"fencing_token"`
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		told["GET /v1/locks"] = fmt.Sprint(page.Locks[0].Holders[0].Token)
		_, text = s.post("/v1/leases", `{"name":"a"}`)
		told["refusal over HTTP"] = read[struct {
			Holder struct {
				Token string `json:"fencing_token"`
			}
		}](t, text).Holder.Token
		told["refusal of run"] = regexp.MustCompile(`token (\d+)`).FindStringSubmatch(s.want(75, "run", "a", "-n", "--", "true").stderr + " token 0")[1]
		for who, token := range told {
			if token != granted {
				t.Errorf("round %d: %s says %s; %s was granted", round, who, token, granted)
			}
		}
		run := s.want(0, "run", "b", "--", "sh", "-c", "echo $PAWL_FENCING_TOKEN; echo $PAWL_FENCE").stdout
		tokens := append([]string{granted}, strings.Fields(run)[0], s.acquire("c", "--ttl", "1h", "--request-id", strconv.Itoa(round)).FencingToken)
		for _, text := range tokens {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil || n <= last || guard.Token(n) > guard.Max {
				t.Errorf("round %d: token %s after %d", round, text, last)
			}
			last = n
		}
		s.want(0, "break", "c", "--now", "--reason", "the round is over", "--token", tokens[2])
		_ = c.Close() // the lease ends with it
		cancel()
		s.stop([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[round%2])
	}
}
