package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testwait"
)

// unreadPipe is the end of a pipe that nobody reads.
func unreadPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Close() })
	_ = read.Close()
	return write
}

// A server goes on when the reader of its log has gone, and ends as it does at
// other times: asked to, with 0, and its tenure resigned.
func TestServerSurvivesClosedLogPipe(t *testing.T) {
	at := closedPort(t)
	second := command(t, "serve", "--listen", at, "--http", "off", "--data", t.TempDir(), "--log-level", "debug")
	second.Stderr = unreadPipe(t)
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) result {
		cmd := command(t, args...)
		cmd.Env = append(cmd.Env, client.ServersEnv+"="+at)
		return finish(t, cmd)
	}
	testwait.Until(t, bound, "it serves", func() bool { return ask("acquire", "a", "--wait", "1s", "-q").code == 0 })
	if r := ask("run", "b", "--", "true"); r.code != 0 {
		t.Errorf("it does its work badly: %+v", r)
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait() // its state tells
	if !second.ProcessState.Exited() || second.ProcessState.ExitCode() != 0 {
		t.Errorf("asked to stop it ended by %v", second.ProcessState)
	}
}

// Nothing that run has to say ends it, or its command.
func TestRunSurvivesClosedStderr(t *testing.T) {
	s := serve(t, "--store", "memory")
	held := s.acquire("a", "--ttl", "1h")
	cmd := s.command("run", "a", "--status-fd", "2", "--", "sh", "-c", "echo ran >&3")
	cmd.Stderr = unreadPipe(t)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.ExtraFiles = []*os.File{in}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	s.waits("a", 1)
	s.want(0, "release", held.Lease)
	said := make([]byte, 16)
	if n, _ := out.Read(said); string(said[:n]) != "ran\n" {
		t.Errorf("the command said %q", said[:n])
	}
	_ = cmd.Wait() // its state tells
	if code := shellCode(cmd.ProcessState); code != 0 {
		t.Errorf("it ended by %v", cmd.ProcessState)
	}
	if n := len(s.show("a").Holders); n != 0 {
		t.Errorf("the lease has %d holders", n)
	}
}

// The command under run dies of a pipe that nobody reads, as it does without run.
func TestCommandUnderRunDiesOfSIGPIPE(t *testing.T) {
	s := serve(t, "--store", "memory")
	cmd := s.command("run", "a", "--", "sh", "-c", "yes; exit 7")
	cmd.Stdout = unreadPipe(t)
	_ = cmd.Run() // its state tells
	if code := shellCode(cmd.ProcessState); code != 7 {
		t.Errorf("it ended by %v", cmd.ProcessState)
	}
	cmd = s.command("run", "a", "--", "yes")
	cmd.Stdout = unreadPipe(t)
	_ = cmd.Run() // its state tells
	if died := diedOf(cmd.ProcessState); died != syscall.SIGPIPE {
		t.Errorf("it ended by %v", cmd.ProcessState)
	}
}

// A command whose answer nobody reads dies of it without a word, as cat does.
func TestClosedStdoutEndsCommandBySIGPIPE(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h")
	for _, args := range [][]string{
		{"ls"},
		{"ls", "--json"},
		{"show", "a"},
		{"status"},
		{"leader", "a"},
		{"leader", "a", "--watch"},
		{"acquire", "b"},
		{"trace", "c"},
		{"version"},
		{"--help"},
		{"guard", "ddl", "--dialect", "sqlite"},
	} {
		cmd := s.command(args...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = unreadPipe(t), &said
		_ = cmd.Run() // its state tells
		if died := diedOf(cmd.ProcessState); died != syscall.SIGPIPE || said.String() != "" {
			t.Errorf("%q ended by %v and said %q", args, cmd.ProcessState, said.String())
		}
	}
	if n := len(s.show("b").Holders); n != 0 {
		t.Errorf("what was acquired for nobody has %d holders", n)
	}
	// Words that nobody reads change no code.
	cmd := s.command("acquire", "a")
	cmd.Stderr = unreadPipe(t)
	_ = cmd.Run() // its state tells
	if code := shellCode(cmd.ProcessState); code != exit.CodeNotAcquired {
		t.Errorf("acquire ended by %v", cmd.ProcessState)
	}
}

// A leader whose term nobody is told of resigns, and does not lead in secret.
func TestElectResignsWhenStdoutIsClosed(t *testing.T) {
	s := serve(t, "--store", "memory")
	cmd := s.command("elect", "svc", "--ttl", "1h")
	cmd.Stdout = unreadPipe(t)
	_ = cmd.Run() // its state tells
	if code := shellCode(cmd.ProcessState); code != exit.CodeOther {
		t.Errorf("it ended by %v", cmd.ProcessState)
	}
	if n := len(s.show("svc").Holders); n != 0 {
		t.Errorf("the name has %d holders", n)
	}
}
