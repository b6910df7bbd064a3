package supervise

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/testwait"
)

// A command that became root under an ordinary user's run outlives the lease: run
// says which process that is, does not say that it was killed, and waits for it.
func TestUnkillableCommandIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes a program that becomes root")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is missing (util-linux)")
	}
	// t.TempDir lies in folders that others may not enter.
	dir, err := os.MkdirTemp("/tmp", "pawl-refused-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	raw, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	run, rooted := filepath.Join(dir, "run"), filepath.Join(dir, "rooted")
	for _, path := range []string{run, rooted} {
		if err := os.WriteFile(path, raw, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, run: 0o755, rooted: 0o755 | os.ModeSetuid} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	const somebody = "65534"
	j := start(t, spec{
		Args: []string{rooted, roleRooted}, Program: run, Contain: ContainProcesses,
		Before: []string{"setpriv", "--reuid", somebody, "--regid", somebody, "--clear-groups"},
	})
	pid := 0
	testwait.Until(t, bound, "the command is root", func() bool {
		_, _ = fmt.Sscanf(j.stdout.String(), "rooted %d", &pid)
		return pid != 0
	})
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	j.send(instruction{Deadline: 500 * time.Millisecond})
	for _, line := range []string{
		fmt.Sprintf("process %d cannot be asked to end", pid),
		fmt.Sprintf("process %d cannot be killed: it is another user's by now, and runs on", pid),
		fmt.Sprintf("the lease has run out, and process %d runs on", pid),
	} {
		testwait.Until(t, bound, "it says "+line, func() bool { return strings.Contains(j.stderr.String(), line) })
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	j.want("70 pawl lease_lost KILL")
}

// mainRooted becomes root for good, as sudo does, and stays.
func mainRooted() int {
	if err := syscall.Setuid(0); err != nil {
		panic(err)
	}
	fmt.Println("rooted", os.Getpid())
	forever()
	return 0
}

// growing is what a run has said so far.
type growing struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}
