package supervise

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/testwait"
)

// ends waits for the end of a job that nobody continues: the shell, whose group
// is given, sees nothing but that, and keeps its terminal.
func (s *seat) ends(shell int, outcome string) {
	s.t.Helper()
	e := next(s.t, s.events, "the shell sees its job end")
	if e.Kind != "exited" || e.Front != shell {
		s.t.Fatalf("the shell sees %+v, want an end with its terminal untouched", e)
	}
	if o := s.outcome(); o.String() != outcome || o.Code != e.Code {
		s.t.Errorf("outcome %q and exit code %d, want %q", o, e.Code, outcome)
	}
}

// sleeps starts a job that says when it is up, and returns its shell's group.
func sleeps(t *testing.T, sp spec) (s *seat, shell int) {
	t.Helper()
	if sp.Args == nil {
		// It does not use the terminal any more.
		sp.Args = []string{"sh", "-c", "echo said:up; exec sleep 1000"}
	}
	s = onTerminal(t, sp, true)
	s.says("up")
	shell, err := unix.Getsid(s.run)
	if err != nil {
		t.Fatal(err)
	}
	return s, shell
}

// front is the group that has the terminal.
func (s *seat) front() (group int) {
	s.t.Helper()
	raw, err := s.master.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	if ctlErr := raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }); ctlErr != nil || err != nil {
		s.t.Fatal(ctlErr, err)
	}
	return group
}

// reportsOf tells how many bytes of a watcher's reports nobody has read yet.
func reportsOf(t *testing.T, watcher int) (unread func() int) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", watcher)
	line, err := os.ReadFile(proc + "cmdline")
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	pipe, err := os.OpenFile(proc+"fd/"+args[len(args)-1], os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	return func() int {
		n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// A command is stopped beyond its deadline, and no process continues it:
//
//  1. Ctrl-Z stops the command. The run takes the terminal back and stops itself.
//  2. At deadline - margin - kill-after the watcher signals the command and
//     continues it, so that it can handle the signal.
//  3. It ends by the signal; the watcher reports that and continues the run.
//  4. The run finds it gone, does not stop again, and says that the lease is lost. It
//     finds that by its own clock, or in the watcher's report, whichever it reads first,
//     and says the same, once.
func TestCtrlZBeyondDeadlineEndsCommand(t *testing.T) {
	s, shell := sleeps(t, spec{KillAfter: 2 * time.Second, Says: "said:"})
	s.send(instruction{Deadline: 6 * time.Second})
	s.press(ctrlZ)
	s.event("stopped")
	s.ends(shell, "70 pawl lease_lost TERM")
	s.says("run: the lease was not renewed in time: the command is asked to end; for a reason")
	for line := range s.said {
		t.Errorf("the run goes on: %q", line)
	}
}

// The same with a command that stops again instead of ending, as a command does that
// reads from the terminal before it handles the signal. It is not asked again, but
// killed at deadline - margin. The run is not there to stop again.
func TestSecondStopBeyondDeadlineEndsCommand(t *testing.T) {
	s, shell := sleeps(t, spec{
		Args:      []string{"sh", "-c", `trap "kill -STOP $$" TERM; echo said:up; while :; do read x; done`},
		KillAfter: 2 * time.Second,
	})
	s.send(instruction{Deadline: 6 * time.Second})
	s.press(ctrlZ)
	s.event("stopped")
	s.ends(shell, "70 pawl lease_lost KILL")
}

// endsFirst makes the command end after the run has found it stopped and before the run
// stops itself. It returns when the watcher has reported the end: at that point the run
// does not count as stopped.
func endsFirst(r *run) {
	_ = unix.Kill(-r.command, unix.SIGKILL)
	last := make(chan report, 1)
	last <- <-r.reports
	r.reports = last
}

// A run that stops itself when its command has already ended is continued by the
// watcher, since no other process would. That may be so soon that the shell does not
// see the stop.
func TestLateStopOfRunIsContinued(t *testing.T) {
	s, _ := sleeps(t, spec{Late: true})
	s.press(ctrlZ)
	e := next(t, s.events, "the shell sees its job end")
	if e.Kind == "stopped" {
		e = next(t, s.events, "the shell sees its job end")
	}
	if o := s.outcome(); e.Kind != "exited" || o.String() != "137 child signaled KILL" || o.Code != e.Code {
		t.Errorf("the shell sees %+v, the outcome is %q; want the end of a command that was killed", e, o)
	}
}

// A run that learns of a stop only after its command has ended does not stop. Meanwhile
// it is stopped by another process:
//
//  1. The run is stopped from outside.
//  2. The command stops; the watcher reports it into a pipe that nobody reads.
//  3. The command is killed; the watcher reports that too, and continues the run.
//  4. The run reads of the stop, then of the end.
func TestStopSeenAfterCommandEnded(t *testing.T) {
	s, shell := sleeps(t, spec{
		Args: []string{"sh", "-c", `trap "echo said:heard" USR1; echo said:up; while :; do read x; done`},
	})
	// It has read of the start, since it passes on what comes.
	if err := unix.Kill(s.run, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s.says("heard")
	command := s.front()
	if command == s.group {
		t.Fatal("the command does not have the terminal")
	}
	p, ok := stat(command)
	if !ok {
		t.Fatalf("no command %d", command)
	}
	if err := unix.Kill(s.run, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.event("stopped")
	if err := unix.Kill(-command, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	unread := reportsOf(t, p.ppid)
	testwait.Until(t, bound, "the watcher reports the stop", func() bool { return unread() > 0 })
	if err := unix.Kill(-command, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ends(shell, "137 child signaled KILL")
}
