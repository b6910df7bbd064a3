package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/internal/testwait"
)

// asPawl makes the test binary be pawl: the very code under test, with the race
// detector where the tests have it, and nothing to build beforehand.
const asPawl = "PAWL_TEST_BINARY_IS_PAWL"

// bound is how long a test waits for what happens at once on a healthy machine.
const bound = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asPawl) != "" {
		main()
		return
	}
	// Under nohup, or in the background of a shell, the commands of the tests would
	// inherit that these are ignored. What is caught they do not inherit.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}

// shellCode is what a shell shows in $? of a process that has ended.
func shellCode(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}

// diedOf is the signal that ended a process; 0: it exited.
func diedOf(p *os.ProcessState) syscall.Signal {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

// command is pawl with these arguments.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	// Without the last a program with the race detector takes a second to exit.
	cmd.Env = append(os.Environ(), asPawl+"=1", "NO_COLOR=1", client.ServersEnv+"=", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

func finish(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", cmd.Args[1:], err)
	}
	return result{shellCode(cmd.ProcessState), out.String(), errs.String()}
}

// pawlCLI runs a command to its end.
func pawlCLI(t testing.TB, args ...string) result {
	t.Helper()
	return finish(t, command(t, args...))
}

// want runs a command that must end with a code.
func want(t testing.TB, code int, args ...string) result {
	t.Helper()
	r := pawlCLI(t, args...)
	if r.code != code {
		t.Fatalf("%q ended with %d, expected %d\nstdout: %s\nstderr: %s", args, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// served is a server.
type served struct {
	t          testing.TB
	cmd        *exec.Cmd
	link, http string

	mu  sync.Mutex
	log []string
	// ready is closed when it says so, ended when it has.
	ready, ended chan struct{}
}

// sigstop stops a child by SIGSTOP and returns when it is stopped: the signal alone says
// nothing of when that is.
func sigstop(t testing.TB, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("process %d is to be stopped: %v, %v", p.Pid, status, err)
		}
		return
	}
}

// launch starts a server on free ports and returns when its process is there.
func launch(t testing.TB, args ...string) *served {
	t.Helper()
	return launchUnder(t, func(*exec.Cmd) {}, args...)
}

// launchUnder is launch with a change of how the process is started.
func launchUnder(t testing.TB, change func(*exec.Cmd), args ...string) *served {
	t.Helper()
	s := &served{t: t, ready: make(chan struct{}), ended: make(chan struct{})}
	s.cmd = command(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	change(s.cmd)
	read, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.listen(read)
	t.Cleanup(s.kill)
	return s
}

func (s *served) listen(read io.Reader) {
	defer close(s.ended)
	for lines := bufio.NewScanner(read); lines.Scan(); {
		var l struct{ Msg, Link, HTTP string }
		_ = json.Unmarshal(lines.Bytes(), &l) // the last line is no JSON
		s.mu.Lock()
		s.log = append(s.log, lines.Text())
		if l.Msg == "listening" {
			s.link, s.http = l.Link, l.HTTP
		}
		s.mu.Unlock()
		if l.Msg == "ready" {
			close(s.ready)
		}
	}
	_ = s.cmd.Wait() // the tests that need the exit code read it
}

// serve starts a server and returns when it serves.
func serve(t testing.TB, args ...string) *served {
	t.Helper()
	return launch(t, args...).serves()
}

// serves returns when the server serves.
func (s *served) serves() *served {
	t := s.t
	t.Helper()
	select {
	case <-s.ready:
	case <-s.ended:
		t.Fatalf("the server ended:\n%s", s.said())
	}
	return s
}

func (s *served) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

func (s *served) kill() { s.stop(syscall.SIGKILL) }

// stop ends the server with a signal and returns its exit code.
func (s *served) stop(sig syscall.Signal) int {
	_ = s.cmd.Process.Signal(sig) // ended already, perhaps
	<-s.ended
	return shellCode(s.cmd.ProcessState)
}

// get returns status and body; 0 when nobody answers.
func (s *served) get(path string) (int, string) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+s.http+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

// post returns status and body.
func (s *served) post(path, body string) (int, string) {
	s.t.Helper()
	res, err := http.Post("http://"+s.http+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// pawl runs a command against the server.
func (s *served) pawl(args ...string) result {
	s.t.Helper()
	return finish(s.t, s.command(args...))
}

func (s *served) command(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := command(s.t, args...)
	cmd.Env = append(cmd.Env, client.ServersEnv+"="+s.link)
	return cmd
}

func (s *served) want(code int, args ...string) result {
	s.t.Helper()
	r := s.pawl(args...)
	if r.code != code {
		s.t.Fatalf("%q ended with %d, expected %d\nstdout: %s\nstderr: %s", args, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// lease is what acquire prints.
type lease struct {
	Lease, Name, Cell, Session, TTL, Waited string
	FencingToken                            string `json:"fencing_token"`
	Fence                                   string
	Slot                                    int
	Names                                   []struct {
		Name, Fence string
		Slot        int
	}
}

func (s *served) acquire(args ...string) lease {
	s.t.Helper()
	return read[lease](s.t, s.want(0, append([]string{"acquire"}, args...)...).stdout)
}

func read[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q is not the JSON that was expected: %v", text, err)
	}
	return v
}

// lock is what show --json prints.
type lock struct {
	Name       string
	Slots      int
	SlotsInUse int `json:"slots_in_use"`
	Value      []byte
	ClosedFor  string `json:"closed_for"`
	Holders    []struct {
		FencingToken string `json:"fencing_token"`
		Holder       string
		Label        string
		Breaking     bool
		Shared       bool
		Slot         int
	}
	Waiters []struct {
		Holder, Label string
		Shared        bool
	}
}

func (s *served) show(name string) lock {
	s.t.Helper()
	return read[lock](s.t, s.want(0, "show", "--json", name).stdout)
}

// waits waits until n stand in the queue of a name.
func (s *served) waits(name string, n int) {
	s.t.Helper()
	testwait.Until(s.t, bound, "the queue has its length", func() bool { return len(s.show(name).Waiters) == n })
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
