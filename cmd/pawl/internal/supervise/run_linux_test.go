package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// means runs a test with each means that this machine has.
func means(t *testing.T, test func(t *testing.T, c Contain)) {
	for _, c := range []Contain{ContainProcesses, ContainCgroup} {
		t.Run(string(c), func(t *testing.T) {
			if c == ContainCgroup {
				cg, err := newCgroup()
				if err != nil {
					t.Skipf("no control group can be made here: %v", err)
				}
				cg.remove()
			}
			test(t, c)
		})
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sh := func(text string) []string { return []string{"sh", "-c", text} }
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"0", sh("exit 0"), "0 child exited 0"},
		{"1", sh("exit 1"), "1 child exited 1"},
		{"3", sh("exit 3"), "3 child exited 3"},
		{"70", sh("exit 70"), "70 child exited 70"},
		{"125", sh("exit 125"), "125 child exited 125"},
		{"255", sh("exit 255"), "255 child exited 255"},
		{"TERM", sh("kill -TERM $$"), "143 child signaled TERM"},
		{"SEGV", sh("kill -SEGV $$"), "139 child signaled SEGV"},
		{"KILL", sh("kill -KILL $$"), "137 child signaled KILL"},
		{"not in PATH", []string{"no-such-command-of-pawl"}, "127 pawl not_found nil"},
		{"no such file", []string{dir + "/absent"}, "127 pawl not_found nil"},
		{"empty name", []string{""}, "127 pawl not_found nil"},
		{"a folder", []string{dir}, "126 pawl not_executable nil"},
		{"no permission", []string{file("plain", "#!/bin/sh\n", 0o600)}, "126 pawl not_executable nil"},
		{"no interpreter", []string{file("lost", "#!/no/such/interpreter\n", 0o700)}, "126 pawl not_executable nil"},
		{"no format", []string{file("text", "just text\n", 0o700)}, "126 pawl not_executable nil"},
		{"no command", nil, "64 pawl usage nil"},
	} {
		t.Run(test.name, func(t *testing.T) {
			means(t, func(t *testing.T, c Contain) {
				start(t, spec{Args: test.args, Contain: c}).want(test.want)
			})
		})
	}
}

func TestCommandInheritsStandardStreams(t *testing.T) {
	j := start(t, spec{Args: []string{"sh", "-c", `cat; echo "$PAWL_NAME" >&2`}})
	fmt.Fprint(j.stdin, "line 1\n\x00\xffline 2")
	j.stdin.Close()
	j.want("0 child exited 0")
	if got := j.stdout.String(); got != "line 1\n\x00\xffline 2" {
		t.Errorf("stdout %q", got)
	}
	if got := j.stderr.String(); got != "orders/7\n" {
		t.Errorf("stderr %q", got)
	}
}

// What the command inherits beside its streams is at its own numbers (make's
// job server, for one), and none of it is ours.
func TestCommandInheritsCallersDescriptors(t *testing.T) {
	list := []string{"ls", "/proc/self/fd"}
	direct, err := exec.Command(list[0], list[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	j := start(t, spec{Args: list})
	j.want("0 child exited 0")
	if got := j.stdout.String(); got != string(direct) {
		t.Errorf("the command has descriptors %q, started directly %q", got, direct)
	}
}

// A signal to the run reaches the whole group, and the run waits for it.
func TestSignalsAreForwardedToGroup(t *testing.T) {
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
	} {
		t.Run(signalName(sig), func(t *testing.T) {
			dir := t.TempDir()
			name := signalName(sig)
			j := start(t, spec{Args: script(dir, `trap 'echo got; exit 9' `+name+`; sleep 1000 & up; wait`)})
			started(t, dir, "leader")
			j.signal(sig)
			j.want("9 child exited 9")
			if got := j.stdout.String(); got != "got\n" {
				t.Errorf("stdout %q", got)
			}
		})
		t.Run(signalName(sig)+" by default", func(t *testing.T) {
			dir := t.TempDir()
			j := start(t, spec{Args: script(dir, "up; exec sleep 1000")})
			started(t, dir, "leader")
			j.signal(sig)
			j.want(fmt.Sprintf("%d child signaled %s", 128+int(sig), signalName(sig)))
		})
	}
}

// escaped starts a command that leaves processes behind in every way known.
func escaped(t *testing.T, s spec) (*job, []process) {
	t.Helper()
	dir := t.TempDir()
	s.Args = []string{"/proc/self/exe", roleEscape, dir}
	j := start(t, s)
	all := []process{started(t, dir, "leader"), started(t, dir, "setsid"), started(t, dir, "orphan")}
	return j, all
}

func noneLeft(t *testing.T, all []process) {
	t.Helper()
	for _, p := range all {
		if p.running() {
			t.Errorf("process %d is alive", p.pid)
		}
	}
}

func goneSoon(t *testing.T, all ...process) {
	t.Helper()
	testwait.Until(t, bound, "everything is gone", func() bool {
		for _, p := range all {
			if p.running() {
				return false
			}
		}
		return true
	})
}

func TestNoProcessSurvivesCommand(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		j, all := escaped(t, spec{Contain: c})
		j.stdin.Close()
		j.want("0 child exited 0")
		noneLeft(t, all)
		noCgroupLeft(t, j)
	})
}

func TestNoProcessSurvivesLease(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		j, all := escaped(t, spec{Contain: c})
		j.send(instruction{Deadline: 500 * time.Millisecond})
		j.wantLost()
		noneLeft(t, all)
		noCgroupLeft(t, j)
	})
}

// A command that runs for too long is asked to end, and killed when it does not.
// One that is done in time has its own code.
func TestMaxHold(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		start(t, spec{Args: []string{"sleep", "1000"}, Contain: c, MaxHold: time.Millisecond}).want("70 pawl max_hold TERM")
		// By default URG is ignored.
		start(t, spec{
			Args: []string{"sleep", "1000"}, Contain: c, Signal: unix.SIGURG,
			MaxHold: time.Millisecond, KillAfter: 10 * time.Millisecond,
		}).want("70 pawl max_hold KILL")
		start(t, spec{Args: []string{"sh", "-c", "exit 3"}, Contain: c, MaxHold: time.Hour}).want("3 child exited 3")
	})
}

func noCgroupLeft(t *testing.T, j *job) {
	t.Helper()
	cg, err := newCgroup()
	if err != nil {
		return
	}
	defer cg.remove()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(string(cg)), fmt.Sprintf("pawl-run-%d-*", j.cmd.Process.Pid)))
	if err != nil || len(left) > 0 {
		t.Errorf("control groups left: %v, %v", left, err)
	}
}

func TestRunKilled(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		j, all := escaped(t, spec{Contain: c})
		all = append(all, watcherOf(t, j.cmd.Process.Pid))
		j.signal(unix.SIGKILL)
		goneSoon(t, all...)
	})
}

func TestWatcherKillsWhileRunIsStopped(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		// The watcher has this deadline from the start; no renewal comes.
		j, all := escaped(t, spec{Contain: c, TTL: 4 * time.Second})
		// Its report is there when it is gone: the run does not take it for late.
		all = append(all, watcherOf(t, j.cmd.Process.Pid))
		j.signal(unix.SIGSTOP)
		goneSoon(t, all...)
		if !stopped(j.cmd.Process.Pid) {
			t.Error("the run is not stopped: it was not the watcher that did it")
		}
		j.signal(unix.SIGCONT)
		j.wantLost()
	})
}

func TestWatcherKilled(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		j, all := escaped(t, spec{Contain: c})
		w := watcherOf(t, j.cmd.Process.Pid)
		w.kill()
		j.want("137 pawl watcher_gone KILL")
		noneLeft(t, append(all, w))
		noCgroupLeft(t, j)
	})
}

// Children that the run's process had before it became a run are not the
// command's, and are left alone.
func TestEarlierChildrenAreSpared(t *testing.T) {
	dir := t.TempDir()
	before := []string{"/bin/sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo $! >"$0/.b"; mv "$0/.b" "$0/before"; exec "$@"`, dir}
	j, all := escaped(t, spec{Before: before})
	old := started(t, dir, "before")
	t.Cleanup(func() { old.kill() })
	for _, p := range childrenOf(t, j.cmd.Process.Pid) {
		if p.pid != old.pid {
			p.kill()
		}
	}
	j.want("137 pawl watcher_gone KILL")
	noneLeft(t, all)
	if !old.running() {
		t.Error("a child that was there before the run was killed with it")
	}
}

// With nobody left to sweep, the command itself dies with its watcher.
func TestCommandDiesWithWatcherWhileRunIsStopped(t *testing.T) {
	j, all := escaped(t, spec{Contain: ContainProcesses})
	w := watcherOf(t, j.cmd.Process.Pid)
	j.signal(unix.SIGSTOP)
	testwait.Until(t, bound, "the run is stopped", func() bool { return stopped(j.cmd.Process.Pid) })
	w.kill()
	goneSoon(t, all[0])
	j.signal(unix.SIGCONT)
	j.want("137 pawl watcher_gone KILL")
	noneLeft(t, all)
}

func TestWatcherStoppedIsContinued(t *testing.T) {
	j, all := escaped(t, spec{})
	w := watcherOf(t, j.cmd.Process.Pid)
	if err := unix.Kill(w.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	j.stdin.Close()
	j.want("0 child exited 0")
	noneLeft(t, all)
}

// A watcher that lives and does nothing is what a stuck machine looks like.
func TestWatcherLate(t *testing.T) {
	means(t, func(t *testing.T, c Contain) {
		j, all := escaped(t, spec{Contain: c, Deaf: true})
		j.send(instruction{Deadline: 500 * time.Millisecond})
		j.want("70 pawl lease_lost KILL")
		noneLeft(t, all)
	})
}

// A service manager asks every process of a service to end. The watcher stays, so
// that the command has its time and its own code.
func TestWatcherIgnoresTerm(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{Args: script(dir, "up; read line; exit 4")})
	started(t, dir, "leader")
	w := watcherOf(t, j.cmd.Process.Pid)
	for _, sig := range passedOn {
		if err := unix.Kill(w.pid, sig.(syscall.Signal)); err != nil {
			t.Fatal(err)
		}
	}
	j.stdin.Close()
	j.want("4 child exited 4")
}

// What nohup and the background of a script have ignored is ignored by the command.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	before := []string{"/bin/sh", "-c", `trap "" HUP INT; exec "$@"`, "sh"}
	ignored := []string{"grep", "SigIgn", "/proc/self/status"}
	direct, err := exec.Command(before[0], append(before[1:], ignored...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	j := start(t, spec{Before: before, Args: ignored})
	j.want("0 child exited 0")
	if got := j.stdout.String(); got != string(direct) {
		t.Errorf("the command ignores %q, started directly %q", got, direct)
	}
}

// Who has no parent any more is the watcher's child, and must not stay in the table
// of processes for as long as the command runs.
func TestOrphansAreReaped(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{Contain: ContainProcesses, Args: script(dir, `(sh -c 'echo $$ >"$0/.o"; mv "$0/.o" "$0/orphan"' "$0" &); up; read line; exit 4`)})
	started(t, dir, "leader")
	var pid int
	testwait.Until(t, bound, "the orphan ran", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "orphan"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	if !testwait.Holds(10*time.Second, func() bool { _, there := stat(pid); return !there }) {
		t.Errorf("process %d has ended and is not reaped", pid)
	}
	j.stdin.Close()
	j.want("4 child exited 4")
}

func TestLeaseLost(t *testing.T) {
	t.Run("the command heeds the request", func(t *testing.T) {
		dir := t.TempDir()
		j := start(t, spec{KillAfter: bound, Args: script(dir, `trap 'echo bye; exit 0' TERM; sleep 1000 & up; wait`)})
		started(t, dir, "leader")
		j.send(instruction{Lost: true})
		j.want("70 pawl lease_lost 0")
		if got := j.stdout.String(); got != "bye\n" {
			t.Errorf("stdout %q", got)
		}
	})
	t.Run("the command does not", func(t *testing.T) {
		dir := t.TempDir()
		j := start(t, spec{Args: script(dir, `trap '' TERM; up; exec sleep 1000`)})
		started(t, dir, "leader")
		j.send(instruction{Lost: true})
		j.want("70 pawl lease_lost KILL")
	})
	t.Run("before the start", func(t *testing.T) {
		start(t, spec{Args: []string{"true"}, TTL: time.Nanosecond}).want("70 pawl lease_lost nil")
	})
	t.Run("behind the command's end", func(t *testing.T) {
		j := start(t, spec{Args: []string{"true"}})
		j.want("0 child exited 0")
	})
}

// A lease that is to be given up is ours meanwhile: the command has its time, it
// may be continued to hear of the request, and the outcome is no loss.
func TestReleaseRequestEndsCommandWithoutLoss(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{KillAfter: bound, Args: script(dir, `trap 'echo bye; exit 3' TERM; up; while :; do sleep 0.05; done`)})
	p := started(t, dir, "leader")
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	j.send(instruction{Asked: true})
	j.want("70 pawl lease_broken 3")
	if got := j.stdout.String(); got != "bye\n" {
		t.Errorf("stdout %q", got)
	}
	if got := j.stderr.String(); !strings.HasPrefix(got, "run: asked to let go: a reason: the command is asked to end\n") {
		t.Errorf("stderr %q", got)
	}
}

// What a command leaves behind is ended with it, and that is said.
func TestLeftoverProcessesAreReported(t *testing.T) {
	const said = "run: the command left processes behind"
	means(t, func(t *testing.T, c Contain) {
		dir := t.TempDir()
		j := start(t, spec{Contain: c, Args: script(dir, `sleep 1000 </dev/null >/dev/null 2>&1 & up; exit 0`)})
		j.want("0 child exited 0")
		if got := j.stderr.String(); !strings.Contains(got, said) {
			t.Errorf("stderr %q", got)
		}
		j = start(t, spec{Contain: c, Args: []string{"sh", "-c", "true & wait"}})
		j.want("0 child exited 0")
		if got := j.stderr.String(); strings.Contains(got, said) {
			t.Errorf("nothing was left, and stderr is %q", got)
		}
	})
}

// A command that somebody stopped stays stopped: not even the request to end
// may continue it when the lease is not ours.
func TestLostLeaseKillsStoppedCommand(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{KillAfter: bound, Args: script(dir, `trap 'echo went on; exit 0' TERM CONT; up; while :; do sleep 0.05; done`)})
	p := started(t, dir, "leader")
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	j.send(instruction{Lost: true})
	j.want("70 pawl lease_lost KILL")
	if got := j.stdout.String(); got != "" {
		t.Errorf("stdout %q", got)
	}
}

func TestTermPrecedesKillAtDeadline(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{KillAfter: 2 * time.Second, Args: script(dir, `trap 'echo asked' TERM; up; while :; do sleep 0.05; done`)})
	started(t, dir, "leader")
	j.send(instruction{Deadline: 3 * time.Second})
	j.want("70 pawl lease_lost KILL")
	if got := j.stdout.String(); got != "asked\n" {
		t.Errorf("stdout %q", got)
	}
}

func TestRenewalExtends(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{TTL: 5 * time.Second, Args: script(dir, "up; read line; exit 4")})
	p := started(t, dir, "leader")
	first := clock.Boottime() + 5*time.Second
	j.send(instruction{Deadline: time.Hour})
	testwait.Until(t, bound, "the first deadline passes", func() bool { return clock.Boottime() > first })
	if !p.running() {
		t.Error("the command was ended at a deadline that had been moved")
	}
	j.stdin.Close()
	j.want("4 child exited 4")
}

func TestContextEndsTheCommand(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{Args: script(dir, "up; exec sleep 1000")})
	started(t, dir, "leader")
	j.send(instruction{Cancel: true})
	j.want("143 child signaled TERM")
}

// A nested run is one more thing that descends from the command.
func TestNestedRunIsDescendant(t *testing.T) {
	dir := t.TempDir()
	j := start(t, spec{Args: []string{
		"env", "TEST_SPEC=" + strings.TrimPrefix(nested(t, spec{Args: []string{"/proc/self/exe", roleEscape, dir}}), "TEST_SPEC="),
		"sh", "-c", `exec "$0" "$@" 3</dev/null 4>/dev/null`, self(t), roleRun,
	}})
	all := []process{started(t, dir, "leader"), started(t, dir, "setsid"), started(t, dir, "orphan")}
	w := watcherOf(t, j.cmd.Process.Pid)
	w.kill()
	j.want("137 pawl watcher_gone KILL")
	noneLeft(t, all)
}

func nested(t *testing.T, s spec) string {
	for _, setting := range environ(t, s) {
		if strings.HasPrefix(setting, "TEST_SPEC=") {
			return setting
		}
	}
	t.Fatal("no spec")
	return ""
}
