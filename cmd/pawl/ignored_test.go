package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/internal/testwait"
)

// ignoring has a command begin with HUP and INT ignored, as under nohup and in the
// background of a script.
func ignoring(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", `trap '' HUP INT; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// What was ignored when a process began ends it neither while it serves nor while it
// waits; TERM does.
func TestSignalsIgnoredAtStartStayIgnored(t *testing.T) {
	s := launchUnder(t, ignoring, "--store", "memory").serves()
	held := s.acquire("a", "--ttl", "1h")
	hang := func(of *exec.Cmd) {
		t.Helper()
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if err := of.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	var all []*exec.Cmd
	for i, args := range [][]string{
		{"run", "a", "--", "sh", "-c", "kill -HUP $$; kill -INT $$; exit 7"}, {"acquire", "a", "--wait", "1h"}, {"elect", "a"},
	} {
		cmd := s.command(args...)
		ignoring(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.waits("a", i+1)
		hang(cmd)
		all = append(all, cmd)
	}
	var said growing
	watch := s.command("leader", "a", "--watch")
	watch.Stdout = &said
	ignoring(watch)
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "the leader is watched", func() bool { return strings.Contains(said.String(), held.FencingToken) })
	hang(watch)
	hang(s.cmd)
	s.want(0, "release", held.Lease)
	_ = all[0].Wait() // its state tells
	if code := shellCode(all[0].ProcessState); code != 7 {
		t.Errorf("run ended by %v; its command ignores both, too", all[0].ProcessState)
	}
	_ = all[1].Wait() // its state tells
	if code := shellCode(all[1].ProcessState); code != 0 {
		t.Errorf("acquire ended by %v", all[1].ProcessState)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		_ = all[2].Process.Signal(sig) // it leads, or waits yet
	}
	for _, cmd := range []*exec.Cmd{all[2], watch} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its state tells
		if died := diedOf(cmd.ProcessState); died != syscall.SIGTERM {
			t.Errorf("%q ended by %v", cmd.Args, cmd.ProcessState)
		}
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the server ended with %d:\n%s", code, s.said())
	}
}
