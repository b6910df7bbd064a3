package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// nobody is an address at which there is no server, and the words for it.
func nobody(t *testing.T) (address, words string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String(), "no server answers at " + l.Addr().String() + ": connection refused"
}

// Without a server the message is the same.
func TestNoServerReadsTheSameEverywhere(t *testing.T) {
	address, words := nobody(t)
	for _, args := range [][]string{
		{"ls"},
		{"status"},
		{"acquire", "a"},
		{"run", "a", "-n", "--", "true"},
		{"run", "a", "-w", "0s", "--", "true"},
		{"run", "a", "-w", "300ms", "--", "true"},
		{"acquire", "a", "-w", "300ms"},
	} {
		r := want(t, exit.CodeUnavailable, append([]string{args[0], "--servers", address}, args[1:]...)...)
		contains(t, r.stderr, "pawl "+args[0]+": "+words+`; is "pawl serve" running`)
		if strings.Contains(r.stderr, "rpc error") || strings.Contains(r.stderr, "transport:") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q says %q", args, r.stderr)
		}
	}
	r := want(t, exit.CodeUnavailable, "run", "a", "-n", "--servers", "nowhere.invalid:7420", "--", "true")
	contains(t, r.stderr, `the host name "nowhere.invalid" c`)
}

func TestHTTPPortForServers(t *testing.T) {
	s := serve(t, "--store", "memory")
	for _, args := range [][]string{{"ls"}, {"run", "a", "-n", "--", "true"}} {
		r := want(t, exit.CodeUnavailable, append([]string{args[0], "--servers", s.http}, args[1:]...)...)
		contains(t, r.stderr, s.http, "looks like the HTTP port", "7420")
	}
}

// What waits for its turn waits for a server, too.
func TestWaitingIsForAServer(t *testing.T) {
	for _, args := range [][]string{{"acquire", "a", "-w", "1m"}, {"run", "a", "-w", "1m", "--", "true"}, {"run", "a", "--", "true"}} {
		address, words := nobody(t)
		cmd := command(t, append([]string{args[0], "--servers", address}, args[1:]...)...)
		var said growing
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, bound, "it says what it waits for", func() bool {
			return strings.Contains(said.String(), "waiting for a server: "+words)
		})
		serve(t, "--store", "memory", "--listen", address)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// growing is what a command has said so far.
type growing struct {
	mu   sync.Mutex
	text strings.Builder
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

// startReading is a command whose standard error is looked at while it runs.
func startReading(t *testing.T, s *served, args ...string) (says func(part string), end func() result) {
	t.Helper()
	cmd := s.command(args...)
	var said growing
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says = func(part string) {
		t.Helper()
		testwait.Until(t, bound, "it says "+part, func() bool { return strings.Contains(said.String(), part) })
	}
	return says, func() result {
		_ = cmd.Wait() // its code tells
		return result{shellCode(cmd.ProcessState), "", said.String()}
	}
}

func TestRunReportsHolderItWaitsFor(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "--ttl", "1h", "--label", "somebody")
	says, end := startReading(t, s, "run", "a", "--", "true")
	says("pawl run: waiting: a is held by somebody (")
	says("with token " + l.FencingToken + " since ")
	s.want(0, "release", l.Lease)
	if r := end(); r.code != 0 || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("it ended with %+v", r)
	}
}

func TestRunUnderItself(t *testing.T) {
	s := serve(t, "--store", "memory")
	self := s.command().Path
	r := s.want(exit.CodeNotAcquired, "run", "a", "--", self, "run", "a", "-w", "10ms", "--servers", s.link, "--", "true")
	contains(t, r.stderr, "this runs under a lease of a already (PAWL_NAME)")
	if r := s.want(0, "run", "a", "--", self, "run", "b", "--servers", s.link, "--", "true"); r.stderr != "" {
		t.Errorf("another name: %q", r.stderr)
	}
}

func TestQuietSkip(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h", "--label", "somebody")
	for _, args := range [][]string{{"-n"}, {"-w", "1ms"}, {"-n", "--json"}} {
		if r := s.want(0, append(append([]string{"run", "a", "-q", "-E", "0"}, args...), "--", "true")...); r.stdout+r.stderr != "" {
			t.Errorf("%q said %+v", args, r)
		}
	}
	contains(t, s.want(75, "run", "a", "-q", "-n", "--", "true").stderr, "a is held by somebody")
	contains(t, s.want(0, "run", "a", "-n", "-E", "0", "--", "true").stderr, "a is held by somebody")
}

// A run that waits for its turn reports that no server answers, that its place in the
// queue is lost, and that a server answers again. A command that is granted afterwards
// sees none of this.
func TestWaitingRunReportsUnreachableServer(t *testing.T) {
	for _, command := range []string{"run", "elect"} {
		s := serve(t, "--store", "memory")
		l := s.acquire("a", "--ttl", "1h", "--label", "somebody")
		says, end := startReading(t, s, command, "a", "--ttl", "2s", "--", "true")
		s.waits("a", 1)
		sigstop(t, s.cmd.Process)
		says("pawl " + command + ": no server has answered a renewal for ")
		says("the place in the queue is lost in ")
		says("the place in the queue is lost (")
		if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		says("a server answers again\npawl " + command + ": waiting: a is held by somebody (")
		s.want(0, "release", l.Lease)
		if r := end(); r.code != 0 || strings.Contains(r.stderr, "asked to end in") {
			t.Errorf("%s ended with %+v", command, r)
		}
	}
}

// A watcher says that it hears from no server, and that it does again.
func TestWatcherReportsUnreachableServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for half of the default TTL")
	}
	s := serve(t, "--store", "memory")
	cmd := s.command("leader", "a", "--watch")
	var out, said growing
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says := func(of *growing, part string) {
		t.Helper()
		testwait.Until(t, bound, "it says "+part, func() bool { return strings.Contains(of.String(), part) })
	}
	says(&out, `{"name":"a"}`)
	sigstop(t, s.cmd.Process)
	says(&said, "pawl leader: no server has answered a renewal for ")
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	says(&said, "pawl leader: a server answers again\n")
	l := s.acquire("a", "--ttl", "1h")
	says(&out, l.FencingToken)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it dies of the signal
}

// startUnder starts a run whose command sleeps, and returns its processes: the command
// has begun when it returns.
func startUnder(t *testing.T, s *served, args ...string) (run *exec.Cmd, said *growing, command int) {
	t.Helper()
	pid := filepath.Join(t.TempDir(), "pid")
	run = s.command(append(append([]string{"run", "a"}, args...), "--", "sh", "-c", `echo $$ >"$0.new" && mv "$0.new" "$0" && exec sleep 1000`, pid)...)
	said = &growing{}
	run.Stderr = said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "the command has begun", func() bool {
		text, err := os.ReadFile(pid)
		if err != nil {
			return false
		}
		command, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return run, said, command
}

// A run that is stopped for so long that its watcher ends the command says that, and
// nothing of servers, which have answered all the time:
//
//  1. The run is stopped, not its command.
//  2. When the command's time is over, the watcher asks it to end, and it ends.
//  3. The run goes on. Its client finds that half of its time, or all of it, has gone by
//     without a renewal, and renews in vain or opens another session.
//  4. The run reads what the watcher has reported.
func TestStoppedRunSaysSo(t *testing.T) {
	s := serve(t, "--store", "memory")
	run, said, command := startUnder(t, s, "--ttl", "2s")
	sigstop(t, run.Process)
	testwait.Until(t, bound, "the command ends", func() bool { return syscall.Kill(command, 0) == syscall.ESRCH })
	if err := run.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // its code tells
	if code := shellCode(run.ProcessState); code != exit.CodeLost {
		t.Errorf("it ended with %d", code)
	}
	line := `\Apawl run: with --ttl 2s [^\n]*\npawl run: the lease was not renewed in time: the command is asked to end; pawl run itself was stopped for [0-9.]+m?s\n\z`
	if !regexp.MustCompile(line).MatchString(said.String()) {
		t.Errorf("it says\n%s", said)
	}
}

// The same with one that waits: its place in the queue is lost, and it takes the next.
func TestStoppedWaiterSaysSo(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "--ttl", "1h", "--label", "somebody")
	cmd := s.command("run", "a", "--ttl", "2s", "--", "true")
	var said growing
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.waits("a", 1)
	testwait.Until(t, bound, "it says for whom", func() bool { return strings.Contains(said.String(), "waiting: a is held") })
	sigstop(t, cmd.Process)
	s.waits("a", 0)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "it says for whom again", func() bool { return strings.Count(said.String(), "waiting: a is held") == 2 })
	s.want(0, "release", l.Lease)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	contains(t, said.String(), "the place in the queue is lost (pawl run itself was stopped for ")
	if strings.Contains(said.String(), "no server has answered") || strings.Contains(said.String(), "answers again") {
		t.Errorf("it says\n%s", said.String())
	}
}

// A leader without a command that is stopped for too long says so.
func TestStoppedLeaderSaysSo(t *testing.T) {
	s := serve(t, "--store", "memory")
	cmd := s.command("elect", "a", "--ttl", "2s")
	var said growing
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	holders := func(n int) {
		t.Helper()
		testwait.Until(t, bound, "so many holders", func() bool { return len(s.show("a").Holders) == n })
	}
	holders(1)
	sigstop(t, cmd.Process)
	holders(0)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its code tells
	if code := shellCode(cmd.ProcessState); code != exit.CodeLost {
		t.Errorf("it ended with %d", code)
	}
	contains(t, said.String(), "lease lost: ", "; pawl elect itself was stopped for ")
}

// A stop that did no harm is not what a place in the queue was lost for:
//
//  1. A waiter is stopped, and goes on. Its renewals are answered.
//  2. The server forgets its session.
func TestHarmlessStopIsNotBlamed(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h", "--label", "somebody")
	cmd := s.command("run", "a", "--ttl", "6s", "--", "true")
	var said growing
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.waits("a", 1)
	sigstop(t, cmd.Process)
	passes := func(d time.Duration) {
		from := clock.Boottime()
		testwait.Until(t, bound, "the time passes", func() bool { return clock.Boottime() > from+d })
	}
	passes(1500 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	passes(1500 * time.Millisecond) // a renewal is answered
	s.kill()
	serve(t, "--store", "memory", "--listen", s.link)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	contains(t, said.String(), "the place in the queue is lost (lease lost: the server no longer has it)")
	if strings.Contains(said.String(), "was stopped") {
		t.Errorf("it says\n%s", said.String())
	}
}

// A request to let go is no loss: it says who wants it and why, the command has
// its time, and the lease is released.
func TestRunReleasesOnRequest(t *testing.T) {
	s := serve(t, "--store", "memory")
	says, end := startReading(t, s, "run", "a", "--ttl", "1m", "-q", "--", "sh", "-c", `trap 'kill $!; exit 0' TERM; sleep 1000 & wait`)
	testwait.Until(t, bound, "the lease is held", func() bool { return len(s.show("a").Holders) == 1 })
	token := s.show("a").Holders[0].FencingToken
	s.want(0, "break", "a", "--token", token, "--reason", "host is retired")
	says("pawl run: asked to let go: host is retired: the command is asked to end")
	if r := end(); r.code != exit.CodeLost || strings.Contains(r.stderr, "lost") {
		t.Errorf("it ended with %+v", r)
	}
	if h := s.show("a").Holders; len(h) != 0 {
		t.Errorf("the lease is held by %+v", h)
	}
	contains(t, s.said(), `"msg":"break"`, `"reason":"host is retired"`, `"token":`+token)

	says, end = startReading(t, s, "run", "a", "--ttl", "1m", "--", "sleep", "1000")
	testwait.Until(t, bound, "the lease is held", func() bool { return len(s.show("a").Holders) == 1 })
	s.want(0, "break", "a", "--token", s.show("a").Holders[0].FencingToken, "--reason", "host burnt down", "--now")
	says("the lease is broken: host burnt down: the command is asked to end")
	if r := end(); r.code != exit.CodeLost {
		t.Errorf("it ended with %+v", r)
	}
}

func TestRunReportsWhatItEnded(t *testing.T) {
	s := serve(t, "--store", "memory")
	contains(t, s.want(0, "run", "a", "--", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 &").stderr, "the command left processes behind")
	if r := s.want(0, "run", "a", "--", "sh", "-c", "true & wait"); r.stderr != "" {
		t.Errorf("a command that cleans up: %q", r.stderr)
	}
	contains(t, want(t, 0, "run", "--help").stdout, "in the background for instance, is ended first")
}

// A holder without a stream is told too, and a listing shows it.
func TestRenewTellsOfABreak(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "--ttl", "1h")
	if r := s.want(0, "renew", l.Lease); strings.Contains(r.stdout, "breaking") {
		t.Errorf("before the break: %s", r.stdout)
	}
	s.want(0, "break", "a", "--token", l.FencingToken, "--reason", "why not")
	contains(t, s.want(0, "renew", l.Lease).stdout, `"breaking":true,"reason":"why not"`)
	contains(t, s.want(0, "ls").stdout, "exclusive, breaking")
	_, body := s.post("/v1/leases/"+l.Lease+"/renew", "")
	contains(t, body, `"session":"`+l.Session+`"`, `"breaking":true,"reason":"why not"`)
}

// Trouble is said while there is time to do something about it, and its end.
func TestRunReportsFailedRenewals(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for half of a TTL")
	}
	s := serve(t, "--store", "memory")
	cmd := s.command("run", "a", "--ttl", "10s", "-k", "1s", "--", "sh", "-c", "read line")
	var said growing
	cmd.Stderr = &said
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "the lease is held", func() bool { return len(s.show("a").Holders) == 1 })
	sigstop(t, s.cmd.Process)
	testwait.Until(t, bound, "it warns", func() bool {
		return strings.Contains(said.String(), "unless that changes, the command is asked to end in")
	})
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "it says that all is well", func() bool {
		return strings.Contains(said.String(), "renewals are answered again")
	})
	contains(t, said.String(), "pawl run: no server has answered a renewal for")
	hold.Close()
	_ = cmd.Wait() // its code tells
	if code := shellCode(cmd.ProcessState); code != 1 {
		t.Errorf("it ended with %d: %s", code, said.String())
	}
}
