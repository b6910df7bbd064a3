package endtoend

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// server is pawl serve on one folder and two addresses, which it keeps over
// restarts.
type server struct {
	t                testing.TB
	data, link, http string
	args             []string

	cmd     *exec.Cmd
	started time.Duration // boot time
	stopped bool          // by SIGSTOP
	ended   chan struct{}

	mu  sync.Mutex
	log []string // of the present process
}

// web is for requests that must be answered within a bound.
var web = &http.Client{Timeout: bound}

func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	wholly(t)
	s := &server{
		t: t, data: filepath.Join(t.TempDir(), "data"), link: freeAddress(t), http: freeAddress(t), args: args,
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	return s
}

// launch starts the process and returns.
func (s *server) launch() {
	s.t.Helper()
	cmd := exec.Command(binary(s.t), append([]string{
		// It ends with the test, however that ends.
		"serve", "--until-eof",
		"--listen", s.link, "--http", s.http, "--data", s.data, "--log-format", "json",
	}, s.args...)...)
	input, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	output, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	s.mu.Lock()
	s.log = nil
	s.mu.Unlock()
	s.started = clock.Boottime()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.ended, s.stopped = cmd, ended, false
	go func() {
		defer close(ended)
		s.listen(output)
		_ = cmd.Wait() // the tests that need the exit code read it
		_ = input.Close()
	}()
}

func (s *server) listen(output io.Reader) {
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			s.mu.Lock()
			s.log = append(s.log, strings.TrimSuffix(line, "\n"))
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// up starts the process, waits for /readyz to answer 200, and returns how long
// that took.
func (s *server) up() time.Duration {
	s.t.Helper()
	s.launch()
	var took time.Duration
	testwait.Until(s.t, bound, "/readyz answers 200", func() bool {
		if s.over() {
			s.t.Fatalf("the server ended with %d:\n%s", s.cmd.ProcessState.ExitCode(), s.said())
		}
		code, _ := s.get("/readyz")
		took = clock.Boottime() - s.started
		return code == http.StatusOK
	})
	return took
}

func (s *server) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// end waits for the process to end and returns its exit code.
func (s *server) end() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(bound):
		s.t.Fatalf("the server does not end:\n%s", s.said())
	}
	return s.cmd.ProcessState.ExitCode()
}

// stop ends the process with a signal and returns its exit code.
func (s *server) stop(sig syscall.Signal) int {
	s.t.Helper()
	if s.cmd == nil {
		return 0
	}
	if s.stopped && sig != syscall.SIGKILL {
		s.resume()
	}
	s.signal(sig)
	return s.end()
}

func (s *server) signal(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig) // it may have ended, which others find out
}

// pause stops the process and returns an instant at which it had stopped.
func (s *server) pause() time.Duration {
	s.signal(syscall.SIGSTOP)
	s.stopped = true
	return clock.Boottime()
}

func (s *server) resume() {
	s.signal(syscall.SIGCONT)
	s.stopped = false
}

// get returns status and body; 0 when nobody answers.
func (s *server) get(path string) (int, string) {
	res, err := web.Get("http://" + s.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

// pawl runs a command against the server.
func (s *server) pawl(args ...string) result {
	s.t.Helper()
	return finish(s.t, s.command(bound, args...))
}

func (s *server) command(within time.Duration, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := pawlCommand(s.t, within, args...)
	cmd.Env = append(cmd.Env, "PAWL_SERVERS="+s.link)
	return cmd
}

// want runs a command that must end with a code.
func (s *server) want(code int, args ...string) result {
	s.t.Helper()
	r := s.pawl(args...)
	if r.code != code {
		s.t.Fatalf("%.200q, expected exit code %d: %v", args, code, r)
	}
	return r
}

// locked is what listings tell of a name.
type locked struct {
	Name    string
	Holders []struct {
		FencingToken string `json:"fencing_token"`
		Label        string
	}
	Waiters []struct{ Label string }
}

// lookUp lists one name.
func (s *server) lookUp(name string) locked {
	s.t.Helper()
	code, text := s.get("/v1/locks?name=" + url.QueryEscape(name))
	if code != http.StatusOK {
		s.t.Fatalf("list %q: %d %s", name, code, text)
	}
	page := read[struct{ Locks []locked }](s.t, text)
	if len(page.Locks) == 0 {
		return locked{Name: name}
	}
	return page.Locks[0]
}

// waits waits until n stand in the queue of a name.
func (s *server) waits(name string, n int) {
	s.t.Helper()
	testwait.Until(s.t, bound, "the queue has its length", func() bool { return len(s.lookUp(name).Waiters) == n })
}
