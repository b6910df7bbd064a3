package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// sleeper is a command as a watcher has it: its child, in a group of its own.
func sleeper(t *testing.T) process {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, ok := stat(cmd.Process.Pid)
	if !ok {
		t.Fatalf("no process %d", cmd.Process.Pid)
	}
	return p
}

// stop stops p and returns when it is stopped.
func (p process) stop(t *testing.T) {
	t.Helper()
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "the process is stopped", func() bool { return stopped(p.pid) })
}

// Orders that were sent before the run heard that the command is asked to end
// move its kill forward only. It has kill-after from the first request on.
func TestPendingKillOnlyMovesForward(t *testing.T) {
	const s = time.Second
	asked := window{Term: 10 * s, Kill: 15 * s}
	w := &watcher{asked: true, window: asked}
	for what, o := range map[string]order{
		"a renewal":        {Kind: orderRenewed, Window: window{Term: 60 * s, Kill: 65 * s}},
		"a second request": {Kind: orderEnd, Window: window{Term: 20 * s, Kill: 25 * s}},
	} {
		if w.obey(o); w.window.Kill != asked.Kill {
			t.Errorf("%s: it is killed at %v, want %v", what, w.window.Kill, asked.Kill)
			w.window = asked
		}
	}
	if w.obey(order{Kind: orderEnd, Window: window{Term: 11 * s, Kill: 12 * s}}); w.window.Kill != 12*s {
		t.Errorf("it is killed at %v, want at the sooner end of the lease, 12s", w.window.Kill)
	}
}

// The run has asked the server before it has the command continued. The order may
// have waited, with the whole machine, until the deadline is over.
func TestStoppedCommandIsNotContinuedAfterDeadline(t *testing.T) {
	p := sleeper(t)
	p.stop(t)
	now := clock.Boottime()
	w := &watcher{command: p.pid, halted: true, window: window{Term: now, Kill: now + time.Hour}}
	if w.obey(order{Kind: orderResume}); !stopped(p.pid) || !w.halted {
		t.Error("it goes on")
	}
	w.window.Term = now + time.Hour
	w.obey(order{Kind: orderResume})
	testwait.Until(t, bound, "the process goes on before its deadline", func() bool { return runs(p.pid) })
	if w.halted {
		t.Error("it counts as stopped")
	}
}

// What was stopped and goes on has its time to end, should the lease be lost.
func TestContinuedCommandDoesNotCountAsStopped(t *testing.T) {
	p := sleeper(t)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{command: p.pid, reports: newOutbox[report](null)}
	defer w.reports.flush()
	p.stop(t)
	testwait.Until(t, bound, "the watcher sees the stop", func() bool { w.poll(); return w.halted })
	if err := unix.Kill(p.pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !testwait.Holds(10*time.Second, func() bool { w.poll(); return !w.halted }) {
		t.Error("it counts as stopped")
	}
}

// Between the run's look at the lease and the start may lie a pause of any length.
func TestCommandIsNotStartedAfterDeadline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	r, out := pipe(t)
	orders := make(chan order, 1)
	now := clock.Boottime()
	orders <- order{Kind: orderStart, Window: window{Term: now, Kill: now + time.Hour}, Setup: &setup{
		Path: "/bin/sh", Args: []string{"sh", "-c", `: >"$0"`, file}, Env: os.Environ(), Signal: unix.SIGTERM, Contain: ContainProcesses,
	}}
	w := &watcher{orders: orders, reports: newOutbox[report](out)}
	defer func() { _ = subreaper(false) }()
	reports := inbox[report](r)
	if w.start() {
		t.Error("it was started")
		_, _ = unix.Wait4(w.command, nil, 0, nil)
	}
	w.reports.close()
	if got := <-reports; got != (report{Kind: reportFailed, Lost: true}) {
		t.Errorf("the run is told %+v, want that the lease was lost before the start", got)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("the command ran")
	}
}
