package endtoend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// freezeRounds is the full count of rounds of each kind.
const freezeRounds = 6

// frozen is the first argument of a worker that works by Client.Do and whose work
// returns in the moment in which its process wakes. Its other arguments are the
// server's address, the name, and a file that it makes when the work has begun.
const frozen = "frozen"

// jump is how far the clock moves between two readings of it when the process was
// stopped in between.
const jump = time.Second

// frozenMain returns exitLost when Do returns ErrLost, and 0 for nil.
func frozenMain(server, name, begun string) int {
	ctx, cancel := context.WithTimeout(context.Background(), workerMax)
	defer cancel()
	c, err := pawl.Dial(ctx, []string{server}, pawl.Options{TTL: runTTL})
	if err == nil {
		defer c.Close()
		err = c.Do(ctx, name, func(ctx context.Context, _ guard.Fence) error {
			if err := os.WriteFile(begun, nil, 0o600); err != nil {
				return err
			}
			for last := clock.Boottime(); ctx.Err() == nil; {
				now := clock.Boottime()
				if now-last > jump {
					return nil
				}
				last = now
			}
			return ctx.Err()
		})
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, pawl.ErrLost):
		return exitLost
	default:
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
}

// signalAll signals processes in their order.
func signalAll(t *testing.T, sig syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatalf("%v to process %d: %v", sig, pid, err)
		}
	}
}

// freeze stops processes, in their order, and returns when all of them stand.
func freeze(t *testing.T, pids ...int) {
	t.Helper()
	signalAll(t, syscall.SIGSTOP, pids...)
	for _, pid := range pids {
		testwait.Until(t, bound, "the process stands", func() bool {
			fields, err := statOf(pid)
			return err == nil && fields[0] == "T"
		})
	}
}

// onlyChild is the process that pid has started.
func onlyChild(t *testing.T, pid int) (child int) {
	t.Helper()
	testwait.Until(t, bound, "the process has a child", func() bool {
		folders, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range folders {
			p, _ := strconv.Atoi(filepath.Base(f))
			if fields, err := statOf(p); err == nil && fields[1] == strconv.Itoa(pid) {
				child = p
			}
		}
		return child != 0
	})
	return child
}

// Work that returns in the moment in which its process wakes has lost its lease,
// which somebody else holds by then: Do says so.
func TestDoReportsLossAfterProcessWasStopped(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := dial(t, s.link, time.Minute)
	for i := range testwait.Reps(freezeRounds) {
		name := fmt.Sprintf("work/%d", i)
		working := filepath.Join(t.TempDir(), "working")
		ctx, cancel := context.WithTimeout(t.Context(), 3*bound)
		defer cancel()
		cmd := exec.CommandContext(ctx, self, frozen, s.link, name, working)
		cmd.Env = append(os.Environ(), asWorker+"=1")
		b := begin(t, cmd)
		testwait.Until(t, bound, "the work has begun", func() bool { return there(working) })
		freeze(t, cmd.Process.Pid)
		acquire(t, other, name)
		signalAll(t, syscall.SIGCONT, cmd.Process.Pid)
		if got := b.end(); got.code != exitLost {
			t.Errorf("round %d: somebody else holds the name, and Do came to %v", i, got)
		}
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The command ends under a pawl run that is stopped together with its watcher. After
// the lease's deadline neither of them can know that it ended in time, so run reports a
// lost lease, whichever goes on first. A command that ends in time is no loss, even if
// the lease is over when run goes on.
func TestRunStoppedWithItsWatcher(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	other := dial(t, s.link, time.Minute)
	for i := range testwait.Reps(freezeRounds) {
		name, folder := fmt.Sprintf("job/%d", i), t.TempDir()
		began, end := filepath.Join(folder, "began"), filepath.Join(folder, "end")
		cmd := pawlCommand(t, 3*bound, "run", name, "--servers", s.link, "--ttl", runTTL.String(), "-k", runKillAfter.String(),
			"--", "sh", "-c", `: >"$0"; while [ ! -e "$1" ]; do sleep 0.01; done; exit 3`, began, end)
		b := begin(t, cmd)
		testwait.Until(t, bound, "the command runs", func() bool { return there(began) })
		run := cmd.Process.Pid
		watcher := onlyChild(t, run)
		command := onlyChild(t, watcher)
		ends := func() {
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, bound, "the command has ended", func() bool { return startOf(command) == 0 })
		}
		want := exitLost
		switch i % 3 {
		case 0, 1:
			freeze(t, run, watcher) // a watcher that is stopped is continued by its run
			acquire(t, other, name)
			ends()
			if i%3 == 0 {
				signalAll(t, syscall.SIGCONT, run, watcher)
			} else {
				signalAll(t, syscall.SIGCONT, watcher, run)
			}
		case 2:
			want = 3
			freeze(t, run)
			ends()
			testwait.Until(t, bound, "the watcher has ended", func() bool { return startOf(watcher) == 0 })
			acquire(t, other, name)
			signalAll(t, syscall.SIGCONT, run)
		}
		if got := b.end(); got.code != want {
			t.Errorf("round %d: want exit code %d, got %v", i, want, got)
		}
	}
}

// A leader that is stopped past the end of its term, and asked to end before it
// goes on, did not resign: somebody else leads.
func TestStoppedElectEndsOnTerm(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	other := dial(t, s.link, time.Minute)
	for i := range testwait.Reps(freezeRounds) {
		name := fmt.Sprintf("leader/%d", i)
		term := filepath.Join(t.TempDir(), "term")
		ctx, cancel := context.WithTimeout(t.Context(), 3*bound)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", `exec "$0" elect "$1" --servers "$2" --ttl "$3" >"$4"`,
			binary(t), name, s.link, runTTL.String(), term)
		b := begin(t, cmd)
		testwait.Until(t, bound, "it leads", func() bool {
			f, err := os.Stat(term)
			return err == nil && f.Size() > 0
		})
		pid := cmd.Process.Pid
		freeze(t, pid)
		acquire(t, other, name)
		signalAll(t, syscall.SIGTERM, pid)
		signalAll(t, syscall.SIGCONT, pid)
		if got := b.end(); got.code != exitLost {
			t.Errorf("round %d: somebody else leads, and elect ended with %v", i, got)
		}
	}
}

// The lease of a stopped pawl run is broken by force, and then the command ends. Run
// reads the answer to its release, and does not report the command's code as that of
// work under a lease.
func TestRunLearnsOfBreakFromRelease(t *testing.T) {
	s := newServer(t)
	s.up()
	other := dial(t, s.link, time.Minute)
	for i := range testwait.Reps(freezeRounds) {
		name, folder := fmt.Sprintf("job/%d", i), t.TempDir()
		began, end := filepath.Join(folder, "began"), filepath.Join(folder, "end")
		cmd := pawlCommand(t, 3*bound, "run", name, "--servers", s.link, "--ttl", "1h",
			"--", "sh", "-c", `: >"$0"; while [ ! -e "$1" ]; do sleep 0.01; done; exit 3`, began, end)
		b := begin(t, cmd)
		testwait.Until(t, bound, "the command runs", func() bool { return there(began) })
		run := cmd.Process.Pid
		watcher := onlyChild(t, run)
		freeze(t, run)
		want := 3
		if i%2 == 0 {
			want = exitLost
			s.want(0, "break", name, "--token", s.lookUp(name).Holders[0].FencingToken, "--reason", "now", "--now")
			acquire(t, other, name)
		}
		if err := os.WriteFile(end, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, bound, "the watcher has ended", func() bool { return startOf(watcher) == 0 })
		signalAll(t, syscall.SIGCONT, run)
		if got := b.end(); got.code != want {
			t.Errorf("round %d: want exit code %d, got %v", i, want, got)
		}
	}
}
