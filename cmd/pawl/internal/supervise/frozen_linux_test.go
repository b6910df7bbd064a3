package supervise

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The run steps in while there is time to kill before the deadline: a quarter of the
// margin behind the watcher's time, 3 s from now. The rest of it is for the kernel.
func TestRunKillsBeforeDeadlineWhenWatcherIsLate(t *testing.T) {
	j, all := escaped(t, spec{Contain: ContainProcesses, Deaf: true, Margin: 8 * time.Second})
	deadline := clock.Boottime() + 9*time.Second
	j.send(instruction{Deadline: 9 * time.Second})
	j.want("70 pawl lease_lost KILL")
	if now := clock.Boottime(); now >= deadline {
		t.Errorf("the run ended %v behind the deadline", now-deadline)
	}
	noneLeft(t, all)
}

// frozenTTL is how long the lease of a run lasts that is to be frozen.
const frozenTTL = 4 * time.Second

// frozen stops a run that has started with frozenTTL, and its watcher, until the
// deadline is over. Nobody has killed the command then, or asked it to end.
func (j *job) frozen() (watcher process) {
	j.t.Helper()
	w := watcherOf(j.t, j.cmd.Process.Pid)
	// First the run, which would have the watcher go on.
	process{pid: j.cmd.Process.Pid}.stop(j.t)
	w.stop(j.t)
	deadline := clock.Boottime() + frozenTTL
	testwait.Until(j.t, bound, "the deadline is over", func() bool { return clock.Boottime() > deadline })
	return w
}

// A machine that is frozen past the deadline wakes up to a kill without a request
// before it. The lease was lost all the same: the kill is not the command's own end.
func TestKillWithoutRequestIsLostLease(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{TTL: frozenTTL, Args: script(dir, "up; exec sleep 1000")})
	p := started(t, dir, "leader")
	w := j.frozen()
	if err := unix.Kill(w.pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	goneSoon(t, p, w)
	j.signal(unix.SIGCONT)
	j.wantLost()
	if !strings.Contains(j.stderr.String(), "run: the lease was not renewed in time: the command ") {
		t.Errorf("the run says %q", j.stderr.String())
	}
}

// So it is where the watcher does not wake up.
func TestStoppedWatcherAtDeadlineIsLostLease(t *testing.T) {
	j, all := escaped(t, spec{TTL: frozenTTL, Contain: ContainProcesses})
	w := j.frozen()
	w.kill()
	j.signal(unix.SIGCONT)
	j.wantLost()
	noneLeft(t, append(all, w))
}
