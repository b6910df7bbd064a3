package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testport"
	"github.com/pawlproject/pawl/internal/testwait"
)

// bound is how long a test waits for what takes a moment on a healthy machine.
const bound = time.Minute

// folder is where the binary lies; it is built by the first test that needs it.
var folder string

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		os.Exit(workerMain(os.Args[1:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "pawl-endtoend-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	code := m.Run()
	if err := stopCluster(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "pawl")
	// Without the version control's stamp, which fails in an exported tree.
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/pawlproject/pawl/cmd/pawl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build pawl: %w\n%s", err, out)
	}
	return path, nil
})

// binary is the path of pawl, built as its users build it: without the race
// detector.
func binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// long marks tests that mostly wait for leases to run out.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for leases to run out")
	}
	t.Parallel()
}

// wholly marks what is no quick test.
func wholly(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and starts the real server")
	}
}

// pawlCommand is pawl with these arguments, killed when the test or its bound
// ends.
func pawlCommand(t testing.TB, within time.Duration, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary(t), args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "PAWL_SERVERS=")
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// result is how a command ended; code -1: it was killed.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %.2000s\nstderr: %.4000s", r.code, r.stdout, r.stderr)
}

func finish(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%.200q: %v", cmd.Args[1:], err)
	}
	return result{shellCode(cmd.ProcessState), out.String(), errs.String()}
}

// begun is a command that runs.
type begun struct {
	t     testing.TB
	cmd   *exec.Cmd
	out   bytes.Buffer
	errs  bytes.Buffer
	ended chan struct{}
}

func begin(t testing.TB, cmd *exec.Cmd) *begun {
	t.Helper()
	b := &begun{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &b.out, &b.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.ended)
		_ = cmd.Wait() // its code tells
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-b.ended
	})
	return b
}

// end waits for the command's own end.
func (b *begun) end() result {
	b.t.Helper()
	select {
	case <-b.ended:
	case <-time.After(2 * bound):
		b.t.Fatalf("%.200q does not end", b.cmd.Args[1:])
	}
	return result{shellCode(b.cmd.ProcessState), b.out.String(), b.errs.String()}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	address, err := testport.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// dial is a client of the SDK that is closed with the test.
func dial(t testing.TB, server string, ttl time.Duration) *pawl.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	c, err := pawl.Dial(ctx, []string{server}, pawl.Options{TTL: ttl, Label: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its server may be gone
	return c
}

func acquire(t testing.TB, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	l, err := c.Acquire(ctx, name)
	if err != nil {
		t.Fatalf("acquire %q: %v", name, err)
	}
	return l
}

// until waits for an instant of the boot-time clock.
func until(t testing.TB, at time.Duration) {
	t.Helper()
	testwait.Until(t, at-clock.Boottime()+bound, "time goes by", func() bool { return clock.Boottime() >= at })
}

func read[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%.2000q is not the JSON that was expected: %v", text, err)
	}
	return v
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%.4000s", p, text)
		}
	}
}

// shellCode is what a shell shows in $? of a process that has ended.
func shellCode(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}
