package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// proxied is a process of "pawl guard proxy".
type proxied struct {
	url, metrics string
	cmd          *exec.Cmd
	ended        chan struct{}
	mu           sync.Mutex
	said         strings.Builder
}

// guardProxy starts a proxy to upstream.
func guardProxy(t *testing.T, upstream, state string, args ...string) *proxied {
	t.Helper()
	cmd := command(t, append([]string{
		"guard", "proxy", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
		"--upstream", upstream, "--state", state, "--log-format", "json",
	}, args...)...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &proxied{cmd: cmd, ended: make(chan struct{})}
	guarding := make(chan struct{})
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			var l struct{ Msg, Address, Metrics string }
			_ = json.Unmarshal(lines.Bytes(), &l)
			p.mu.Lock()
			p.said.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			if l.Msg == "guarding" {
				p.url, p.metrics = "http://"+l.Address, "http://"+l.Metrics+"/metrics"
				close(guarding)
			}
		}
		_ = cmd.Wait() // its code is looked at
	}()
	t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	select {
	case <-guarding:
	case <-p.ended:
		t.Fatalf("the proxy ended:\n%s", p.text())
	}
	return p
}

func (p *proxied) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *proxied) stop(sig syscall.Signal) int {
	_ = p.cmd.Process.Signal(sig) // ended already, perhaps
	<-p.ended
	return shellCode(p.cmd.ProcessState)
}

// held is a service whose requests wait for a word.
type held struct {
	came chan struct{}
	word chan struct{}
	mu   sync.Mutex
	done []string
}

func (h *held) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(string(text), "slow") {
		h.came <- struct{}{}
		<-h.word
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, string(text))
}

func (h *held) texts() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.done, " ")
}

func newHeld(t *testing.T) (*held, string) {
	h := &held{came: make(chan struct{}), word: make(chan struct{})}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, s.URL
}

var _ httpguard.Lease = (*pawl.Lease)(nil)

type proxyLease struct {
	f   guard.Fence
	ctx context.Context
}

func (l proxyLease) Fence(...string) guard.Fence { return l.f }
func (l proxyLease) Context() context.Context    { return l.ctx }

func proxyFence(t guard.Token) guard.Fence {
	return guard.Fence{Resource: "orders/7", Token: t, Cell: "c"}
}

// send posts text under a token.
func (p *proxied) send(t *testing.T, token guard.Token, text string) error {
	next := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: httpguard.Transport(next, proxyLease{proxyFence(token), t.Context()})}).
		Post(p.url, "text/plain", strings.NewReader(text))
	if err == nil {
		res.Body.Close()
	}
	return err
}

// The commands claim, and see, behind a proxy; its marks outlive it, and its file is its own.
func TestGuardProxy(t *testing.T) {
	h, upstream := newHeld(t)
	state := filepath.Join(t.TempDir(), "a b?c#d%.db")
	p := guardProxy(t, upstream, state)
	contains(t, want(t, 0, "guard", "seen", "orders/7", "--dsn", p.url).stdout, "has seen no token yet")
	claim := func(code int, token, cell string) result {
		return want(t, code, "guard", "claim", "orders/7", "--token", token, "--cell", cell, "--dsn", p.url)
	}
	claim(0, "7", "c")
	if m := read[mark](t, want(t, 0, "guard", "seen", "orders/7", "--json", "--dsn", p.url).stdout); m != (mark{"orders/7", "7", "c"}) {
		t.Errorf("seen %+v", m)
	}
	contains(t, claim(exit.CodeLost, "6", "c").stderr, "stale", "seen 7")
	contains(t, claim(exit.CodeOther, "8", "d").stderr, "another cell")
	if err := p.send(t, 6, "late"); !errors.Is(err, guard.ErrStale) {
		t.Errorf("below the mark: %v", err)
	}
	if err := p.send(t, 7, "a"); err != nil || h.texts() != "a" {
		t.Errorf("at the mark: %v, %s", err, h.texts())
	}
	res, err := http.Get(p.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	shown, _ := io.ReadAll(res.Body)
	contains(t, string(shown), "pawl_guard_proxy_stale_total 2", "pawl_guard_proxy_admitted_total 1", "go_goroutines")

	r := want(t, exit.CodeUnavailable, "guard", "proxy", "--listen", "127.0.0.1:0", "--upstream", upstream, "--state", state)
	contains(t, r.stderr, "another proxy")
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("it stopped with %d:\n%s", code, p.text())
	}
	// After a clean stop nothing is waited for.
	p = guardProxy(t, upstream, state, "--max-upstream", "1h")
	if err := p.send(t, 6, "late"); !errors.Is(err, guard.ErrStale) {
		t.Errorf("below the mark, after a restart: %v", err)
	}
	if err := p.send(t, 8, "b"); err != nil || h.texts() != "a b" {
		t.Errorf("above the mark, after a restart: %v, %s", err, h.texts())
	}
	// A command under a lease claims before it starts.
	s := serve(t, "--store", "memory")
	cmd := s.command("run", "nightly", "--claim", p.url, "--", os.Args[0], "guard", "seen", "nightly", "--json", "--dsn", p.url)
	if r := finish(t, cmd); r.code != 0 || read[mark](t, r.stdout).FencingToken == "" {
		t.Errorf("under a lease: %+v", r)
	}
	want(t, exit.CodeUnavailable, "guard", "seen", "orders/7", "--dsn", "http://"+closedPort(t))
}

// A proxy is killed while a request of the old holder is at the upstream, with the mark
// raised over it already. The next proxy does not let the new holder in before the upstream
// has given up, and lets the old one go on where no higher token is known.
func TestGuardProxyKilled(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		h, upstream := newHeld(t)
		state := filepath.Join(t.TempDir(), "state.db")
		p := guardProxy(t, upstream, state)
		sent := make(chan error, 1)
		go func() { sent <- p.send(t, 7, "slow") }()
		<-h.came
		if claimed {
			want(t, exit.CodeNotAcquired, "guard", "claim", "orders/7", "--token", "8", "--cell", "c", "--wait", "0s", "--dsn", p.url)
		}
		p.stop(syscall.SIGKILL)
		if err := <-sent; !errors.Is(err, guard.ErrUnknown) {
			t.Errorf("claimed %t: the request in flight: %v", claimed, err)
		}
		p = guardProxy(t, upstream, state, "--drain-timeout", "1ms", "--max-upstream", "3s")
		contains(t, p.text(), "did not stop cleanly")
		begun := time.Now()
		wanted := map[bool]error{true: guard.ErrStale}[claimed]
		if err := p.send(t, 7, "same"); !errors.Is(err, wanted) {
			t.Errorf("claimed %t: the old holder goes on: %v", claimed, err)
		}
		if err := p.send(t, 8, "new"); !errors.Is(err, httpguard.ErrBusy) && time.Since(begun) < 2*time.Second {
			t.Errorf("claimed %t: beside what is in flight: %v", claimed, err)
		}
		// The upstream keeps its promise.
		h.word <- struct{}{}
		testwait.Until(t, bound, "the new holder is let in", func() bool { return p.send(t, 8, "new") == nil })
		if got := h.texts(); !strings.HasSuffix(got, "slow new") || strings.Count(got, "new") != 1 {
			t.Errorf("claimed %t: it did %s", claimed, got)
		}
	}
}

// A clean stop waits for what is in flight.
func TestGuardProxyStopsCleanly(t *testing.T) {
	h, upstream := newHeld(t)
	state := filepath.Join(t.TempDir(), "state.db")
	p := guardProxy(t, upstream, state)
	sent := make(chan error, 1)
	go func() { sent <- p.send(t, 7, "slow") }()
	<-h.came
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	testwait.Until(t, bound, "it is stopping", func() bool { return strings.Contains(p.text(), "stopping") })
	h.word <- struct{}{}
	if err := <-sent; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	<-p.ended
	if code := shellCode(p.cmd.ProcessState); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.text())
	}
	p = guardProxy(t, upstream, state, "--max-upstream", "1h")
	if err := p.send(t, 8, "new"); err != nil {
		t.Errorf("after a clean stop: %v", err)
	}
}

func TestGuardProxyRefusesInvalidFlags(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.db")
	for _, args := range [][]string{
		{},
		{"--upstream", "http://127.0.0.1:1"},
		{"--state", state},
		{"--state", state, "--upstream", "127.0.0.1:1"},
		{"--state", state, "--upstream", "ftp://127.0.0.1:1"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--listen", "0.0.0.0:0"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--listen", "off"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--metrics-listen", "0.0.0.0:0"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--max-upstream", "0s"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--drain-timeout", "2h"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--tls-cert", "x"},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "--cell", strings.Repeat("c", 256)},
		{"--state", state, "--upstream", "http://127.0.0.1:1", "more"},
	} {
		want(t, exit.CodeUsage, append([]string{"guard", "proxy"}, args...)...)
	}
	r := want(t, exit.CodeUsage, "guard", "proxy", "--state", state, "--upstream", "http://127.0.0.1:1", "--cell", "c", "--resource", strings.Repeat("r", 1000))
	contains(t, r.stderr, "--resource is")
	want(t, exit.CodeUnavailable, "guard", "proxy", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1", "--state", t.TempDir())
	want(t, exit.CodeUnavailable, "guard", "proxy", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1",
		"--state", writeFile(t, "text", strings.Repeat("no database ", 100)))
}

// With TLS and certificates of clients the proxy listens where others can reach it, and
// nobody else gets an answer.
func TestGuardProxyTLS(t *testing.T) {
	_, upstream := newHeld(t)
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("proxy", nil, "localhost")
	mine, myKey := ca.Issue("client", nil)
	p := guardProxy(t, upstream, filepath.Join(dir, "state.db"), "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File)
	dsn := "https://localhost:" + p.url[strings.LastIndex(p.url, ":")+1:]
	claim := func(env ...string) result {
		cmd := command(t, "guard", "claim", "x", "--token", "7", "--cell", "c", "--dsn", dsn)
		cmd.Env = append(cmd.Env, env...)
		return finish(t, cmd)
	}
	if r := claim("PAWL_GUARD_CA="+ca.File, "PAWL_GUARD_CERT="+mine, "PAWL_GUARD_KEY="+myKey); r.code != 0 {
		t.Errorf("with a certificate: %+v", r)
	}
	if r := claim("PAWL_GUARD_CA=" + ca.File); r.code != exit.CodeUnavailable {
		t.Errorf("without a certificate: %+v", r)
	}
	if r := claim("PAWL_GUARD_CERT="+mine, "PAWL_GUARD_KEY="+myKey); r.code != exit.CodeUnavailable {
		t.Errorf("of an authority that is not known: %+v", r)
	}
	if r := claim("PAWL_GUARD_CERT=" + mine); r.code != exit.CodeUsage {
		t.Errorf("without the key: %+v", r)
	}
}
