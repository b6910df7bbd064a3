package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testwait"
)

// ended is what --status-fd gets.
type ended struct {
	Code         int
	From, Reason string
	Child        *struct {
		Code   *int
		Signal string
	}
}

// status runs a command with a --status-fd and returns what was written there.
func (s *served) status(args ...string) (result, ended) {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	cmd := s.command(append([]string{"run", "a", "--status-fd", "3"}, args...)...)
	cmd.ExtraFiles = []*os.File{w}
	res := finish(s.t, cmd)
	w.Close()
	line := make([]byte, 4096)
	n, _ := r.Read(line) // an empty answer is told apart below
	return res, read[ended](s.t, string(line[:n]))
}

// C70: the command's code is the command's, and run's own can be told apart.
func TestRunExitCodes(t *testing.T) {
	s := serve(t, "--store", "memory")
	script := writeFile(t, "not-executable", "#!/bin/sh\n")
	for _, tc := range []struct {
		command []string
		code    int
		from    string
		reason  string
	}{
		{[]string{"true"}, 0, "child", "exited"},
		{[]string{"sh", "-c", "exit 1"}, 1, "child", "exited"},
		{[]string{"sh", "-c", "exit 3"}, 3, "child", "exited"},
		{[]string{"sh", "-c", "exit 75"}, 75, "child", "exited"},
		{[]string{"sh", "-c", "exit 125"}, 125, "child", "exited"},
		{[]string{"sh", "-c", "exit 255"}, 255, "child", "exited"},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, "child", "signaled"},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, "child", "signaled"},
		{[]string{"no-such-command-here"}, 127, "pawl", "not_found"},
		{[]string{"/no/such/command"}, 127, "pawl", "not_found"},
		{[]string{script}, 126, "pawl", "not_executable"},
	} {
		r, e := s.status(append([]string{"--"}, tc.command...)...)
		if r.code != tc.code || e.Code != tc.code || e.From != tc.from || e.Reason != tc.reason {
			t.Errorf("%q ended with %d and said %+v, expected %+v\n%s", tc.command, r.code, e, tc, r.stderr)
		}
		if r.stdout != "" {
			t.Errorf("%q: run printed %q", tc.command, r.stdout)
		}
		if h := s.show("a").Holders; len(h) != 0 {
			t.Errorf("%q left its lease behind: %+v", tc.command, h)
		}
	}
	s.acquire("a", "--ttl", "1h", "--label", "somebody")
	for _, args := range [][]string{{"-n"}, {"-w", "0s"}, {"-w", "1ms"}} {
		r, e := s.status(append(args, "--", "true")...)
		if r.code != 75 || e.From != "pawl" || e.Reason != "not_acquired" || e.Child != nil {
			t.Errorf("%q ended with %d and said %+v", args, r.code, e)
		}
	}
	if r, e := s.status("-n"); r.code != 64 || e.Code != 64 || e.From != "pawl" || e.Reason != "usage" {
		t.Errorf("without a command it ended with %d and said %+v", r.code, e)
	}
	contains(t, s.want(75, "run", "a", "-n", "--", "true").stderr, "held by somebody", "with token")
	contains(t, s.want(75, "run", "a", "-w", "1ms", "--", "true").stderr, "a was not granted within 1ms: it is held by somebody", "with token")
	s.want(0, "run", "a", "-n", "-E", "0", "--", "false")
	s.want(9, "run", "a", "-n", "-E", "9", "--", "true")
}

// A holder that hangs lets go after --max-hold, and says why.
func TestMaxHoldEndsACommandThatHangs(t *testing.T) {
	s := serve(t, "--store", "memory")
	r, e := s.status("--ttl", "1h", "--max-hold", "1s", "-k", "100ms", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1000; done")
	if r.code != exit.CodeLost || e.Code != exit.CodeLost || e.From != "pawl" || e.Reason != "max_hold" {
		t.Errorf("it ended with %d and said %+v", r.code, e)
	}
	contains(t, r.stderr, "pawl run: it has been held for 1s: the command is asked to end\npawl run: the command had not ended: it was killed\n")
	if h := s.show("a").Holders; len(h) != 0 {
		t.Errorf("the lease is held by %+v", h)
	}
	if r, e := s.status("--max-hold", "1h", "--", "sh", "-c", "exit 3"); r.code != 3 || e.Reason != "exited" {
		t.Errorf("a command in time ended with %d and said %+v", r.code, e)
	}
	want(t, exit.CodeUsage, "elect", "a", "--max-hold", "1h", "--", "true")
}

// The exit code is run's own.
func TestStatusDescriptorIsNotTheCommands(t *testing.T) {
	s := serve(t, "--store", "memory")
	r, e := s.status("--", "sh", "-c", `echo '{"code":0}' >&3`)
	if r.code == 0 || e.Code != r.code || e.From != "child" {
		t.Errorf("it ended with %d and said %+v", r.code, e)
	}
}

// The signal that asks the command to end is the one that was chosen.
func TestRunAsksByTheChosenSignal(t *testing.T) {
	s := serve(t, "--store", "memory")
	for _, name := range []string{"USR1", "sigusr1", strconv.Itoa(int(syscall.SIGUSR1))} {
		says, end := startReading(t, s, "run", "a", "--ttl", "1m", "--signal", name, "--",
			"sh", "-c", `trap 'echo heard USR1 >&2; kill $!; exit 5' USR1; sleep 1000 & echo up >&2; wait`)
		says("up\n")
		s.want(0, "break", "a", "--token", s.show("a").Holders[0].FencingToken, "--reason", "r")
		r := end()
		contains(t, r.stderr, "heard USR1")
		if r.code != exit.CodeLost {
			t.Errorf("%s: it ended with %+v", name, r)
		}
	}
}

// A command that ends after a break by force has worked beside the next holder:
//
//  1. Run is paused. Its lease is broken by force.
//  2. The command ends by itself, with 0. The watcher knows of no loss.
//  3. Run goes on, and learns of the command's end and of the break, in any order.
func TestBreakWhileRunIsStoppedOverridesExitCode(t *testing.T) {
	s := serve(t, "--store", "memory")
	for range testwait.Reps(5) {
		cmd := s.command("run", "a", "--ttl", "1m", "--", "cat")
		var said strings.Builder
		cmd.Stderr = &said
		hold, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		child := childOf(t, cmd.Process.Pid, "cat")
		sigstop(t, cmd.Process)
		s.want(0, "break", "a", "--token", s.show("a").Holders[0].FencingToken, "--reason", "host burnt down", "--now")
		hold.Close()
		testwait.Until(t, bound, "the command ends", func() bool { return syscall.Kill(child, 0) != nil })
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its code tells
		if code := cmd.ProcessState.ExitCode(); code != exit.CodeLost {
			t.Errorf("it ended with %d: %s", code, said.String())
		}
	}
}

func TestRunPassesLeaseToCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	cmd := s.command("run", "orders/7", "--", "sh", "-c", `cat; echo "$PAWL_NAME|$PAWL_FENCING_TOKEN|$PAWL_FENCE|$PAWL_CELL"; env | grep -c ^PAWL_FENCING_TOKEN=`)
	cmd.Env = append(cmd.Env, "PAWL_FENCING_TOKEN=outer", "PAWL_NAME=outer")
	cmd.Stdin = strings.NewReader("from outside\n")
	r := finish(t, cmd)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != 0 || r.stderr != "" || len(lines) != 3 || lines[0] != "from outside" || lines[2] != "1" {
		t.Fatalf("it ended with %+v", r)
	}
	parts := strings.Split(lines[1], "|")
	if _, err := strconv.ParseUint(parts[1], 10, 64); err != nil || parts[0] != "orders/7" || parts[2] != parts[1] || !strings.HasPrefix(parts[3], "default-") {
		t.Errorf("the command was told %q", lines[1])
	}
}

func TestRunRefusesInvalidFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		says string
	}{
		{nil, "NAME is missing"},
		{[]string{"--", "true"}, "NAME is missing"},
		{[]string{"a"}, `"--" is missing`},
		{[]string{"a", "true"}, `"--" is missing`},
		{[]string{"a", "b", "--", "true"}, "too many arguments"},
		{[]string{"a", "--"}, "COMMAND is missing"},
		{[]string{"a", "-n", "-w", "1s", "--", "true"}, "expected one of them"},
		{[]string{"a", "-w", "-1s", "--", "true"}, "0 to 24h"},
		{[]string{"a", "--ttl", "2s", "-k", "5s", "--", "true"}, "--ttl 7.875s or more"},
		{[]string{"a", "--ttl", "500ms", "--", "true"}, "1s to 24h"},
		{[]string{"a", "-k", "-1s", "--", "true"}, "0s or more"},
		{[]string{"a", "-k", "9999h", "--", "true"}, "at most 24h"},
		{[]string{"a", "-E", "256", "--", "true"}, "0 to 255"},
		{[]string{"a", "--max-hold", "0s", "--", "true"}, "more than 0s"},
		{[]string{"a", "--signal", "NONSENSE", "--", "true"}, "such as TERM"},
		{[]string{"a", "--contain", "vm", "--", "true"}, "auto, cgroup, processes"},
		{[]string{"a", "--status-fd", "77", "--", "true"}, "not open"},
		{[]string{"a", "--status-fd", "-5", "--", "true"}, "--status-fd is -5"},
		{[]string{"a", "--status-fd=-1", "--", "true"}, "--status-fd is -1"},
	} {
		contains(t, want(t, exit.CodeUsage, append([]string{"run"}, tc.args...)...).stderr, "pawl run", tc.says)
	}
}

// C69: a run that waits ends at once, and its place in the queue with it.
func TestSignalledRunLeavesQueue(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := s.command("run", "a", "--", "echo", "ran")
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.waits("a", 1)
		// Not for run, but for its command, which there is none of.
		_ = cmd.Process.Signal(syscall.SIGUSR1)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its code tells
		if died := diedOf(cmd.ProcessState); died != sig || out.String() != "" {
			t.Errorf("after %v it ended by %v, %v, and printed %q", sig, died, cmd.ProcessState, out.String())
		}
		if n := len(s.show("a").Waiters); n != 0 {
			t.Errorf("after %v there are %d waiters", sig, n)
		}
	}
}

// C66: what ends run ends the command first, and the lease after it.
func TestRunForwardsSignals(t *testing.T) {
	s := serve(t, "--store", "memory")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := s.command("run", "a", "--", "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		child := childOf(t, cmd.Process.Pid, "sleep")
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its code tells
		if died := diedOf(cmd.ProcessState); died != sig {
			t.Errorf("after %v it ended by %v, %v", sig, died, cmd.ProcessState)
		}
		if err := syscall.Kill(child, 0); err == nil {
			t.Errorf("after %v the command is alive", sig)
		}
		if h := s.show("a").Holders; len(h) != 0 {
			t.Errorf("after %v the lease is held: %+v", sig, h)
		}
	}
}

// childOf finds the process with this name below another one.
func childOf(t *testing.T, above int, name string) (pid int) {
	t.Helper()
	testwait.Until(t, bound, "the command runs", func() bool {
		out, err := exec.Command("ps", "-e", "-o", "pid=,ppid=,comm=").Output()
		if err != nil {
			t.Fatal(err)
		}
		parents, named, found := map[int]int{}, []int{}, 0
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			p, _ := strconv.Atoi(f[0])
			parents[p], _ = strconv.Atoi(f[1])
			if f[2] == name {
				named = append(named, p)
			}
		}
		// A parent may stand behind its child: numbers begin anew at pid_max.
		for _, p := range named {
			for q := p; q > 1; q = parents[q] {
				if q == above {
					found = p
				}
			}
		}
		pid = found
		return found != 0
	})
	return pid
}

// C63: one after the other, and nobody polls.
func TestRunsHandOver(t *testing.T) {
	s := serve(t, "--store", "memory")
	dir := t.TempDir()
	var all sync.WaitGroup
	results := make([]result, 8)
	for i := range results {
		cmd := s.command("run", "a", "--", "sh", "-c", "mkdir "+dir+"/one && rmdir "+dir+"/one")
		all.Go(func() { results[i] = finish(t, cmd) })
	}
	all.Wait()
	for _, r := range results {
		if r.code != 0 {
			t.Errorf("two ran at once, or worse: %+v", r)
		}
	}
}

// The server is stopped for longer than the lease: the command must be gone by
// the time that anybody else is granted the name.
func TestRunEndsItsCommandWithItsLease(t *testing.T) {
	s := serve(t, "--store", "memory")
	cmd := s.command("run", "a", "--ttl", "2s", "-k", "200ms", "--json", "--", "sleep", "1000")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	childOf(t, cmd.Process.Pid, "sleep")
	sigstop(t, s.cmd.Process)
	_ = cmd.Wait() // its code tells
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := shellCode(cmd.ProcessState); code != exit.CodeLost {
		t.Errorf("it ended with %d\n%s", code, said.String())
	}
	contains(t, said.String(), `"event":"acquired"`, `"event":"ended"`, `"reason":"lease_lost"`, "no server has answered a renewal for", "a restart of the server")
	s.want(0, "run", "a", "-w", "20s", "--", "true")
}

func TestRunReportsHowToTakeOver(t *testing.T) {
	s := serve(t, "--store", "memory")
	args := []string{"--ttl", "3s", "--", "sh", "-c", "read line"}
	for _, quiet := range []bool{false, true} {
		cmd := s.command(append([]string{"run", "a", "--quiet=" + strconv.FormatBool(quiet)}, args...)...)
		var said strings.Builder
		out, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		w := &notified{to: &said, heard: make(chan struct{}, 1)}
		cmd.Stderr = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !quiet {
			<-w.heard
		}
		out.Close()
		_ = cmd.Wait()
		if got := strings.Contains(said.String(), "another one's taking over, can take 5s"); got == quiet {
			t.Errorf("quiet %t: it said %q", quiet, said.String())
		}
	}
}

// notified tells that something was written.
type notified struct {
	to    *strings.Builder
	heard chan struct{}
}

func (n *notified) Write(b []byte) (int, error) {
	select {
	case n.heard <- struct{}{}:
	default:
	}
	return n.to.Write(b)
}

// The command under a lease has the files that it would have without pawl, and no
// more: none of the connection, of the credential, or of the watcher.
func TestCommandInheritsNoFiles(t *testing.T) {
	const look = "ls /proc/$$/fd"
	plainly, err := exec.Command("sh", "-c", look).Output()
	if err != nil {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux lists a process' files in /proc")
		}
		t.Fatal(err)
	}
	f := newFortress(t)
	for _, contain := range []string{"processes", "auto"} {
		if r := f.must(0, "a", "run", "a/1", "--contain", contain, "--", "sh", "-c", look); r.stdout != string(plainly) {
			t.Errorf("with %s it has open:\n%s\nwithout pawl:\n%s", contain, r.stdout, plainly)
		}
	}
}

// C63: eight runs of what ends at once, started together. From one's end to the next
// one's beginning there is no pause: who waits is told, and does not ask again.
func TestRunsHandOverWithoutAPause(t *testing.T) {
	s := serve(t, "--store", "memory")
	stamps := filepath.Join(t.TempDir(), "stamps")
	holder := s.acquire("a", "--ttl", "1h")
	const runs = 8
	var all sync.WaitGroup
	for range runs {
		cmd := s.command("run", "a", "--", "sh", "-c", `date +%s%N >> `+stamps)
		all.Go(func() {
			if r := finish(t, cmd); r.code != 0 {
				t.Errorf("it ended with %+v", r)
			}
		})
	}
	s.waits("a", runs) // all of them are there before the first may go
	s.want(0, "release", holder.Lease)
	all.Wait()
	raw, err := os.ReadFile(stamps)
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	for line := range strings.FieldsSeq(string(raw)) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, n)
	}
	if len(at) != runs || !slices.IsSorted(at) {
		t.Fatalf("the runs were at %v", at)
	}
	var gaps []time.Duration
	for i := 1; i < runs; i++ {
		gaps = append(gaps, time.Duration(at[i]-at[i-1]))
	}
	slices.Sort(gaps)
	// The middle one, for the sake of slow machines: with a retry every second or
	// more it cannot be this short.
	if middle := gaps[len(gaps)/2]; middle > 900*time.Millisecond {
		t.Errorf("from one run to the next it takes %v: %v", middle, gaps)
	}
}

// C66: the command takes its time to end after TERM, and is sent signals that are no
// reason to end. Its name is held until it is gone, and its own code tells.
func TestRunWaitsForItsCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	there := func(name string) {
		t.Helper()
		testwait.Until(t, bound, name, func() bool {
			_, err := os.Stat(file(name))
			return err == nil
		})
	}
	script := writeFile(t, "command", `cd "$1"
trap 'touch usr1' USR1
trap 'touch usr2' USR2
trap 'touch ending; until [ -e end ]; do sleep 0.05; done; touch ended; exit 5' TERM
touch ready
while :; do sleep 0.05; done
`)
	cmd := s.command("run", "a", "--ttl", "2m", "-k", "30s", "--", "sh", script, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	there("ready")
	for name, sig := range map[string]syscall.Signal{"usr1": syscall.SIGUSR1, "usr2": syscall.SIGUSR2} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		there(name)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	there("ending")
	s.want(exit.CodeNotAcquired, "run", "a", "-n", "--", "true")
	if err := os.WriteFile(file("end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(0, "run", "a", "-w", "1m", "--", "test", "-e", file("ended"))
	_ = cmd.Wait() // its code tells
	if code := shellCode(cmd.ProcessState); code != 5 {
		t.Errorf("run ended with %d", code)
	}
}
