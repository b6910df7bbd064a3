package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// termLine is what elect prints, and leader of a name that is led.
type termLine struct {
	Name, Fence, Cell, Label string
	FencingToken             string `json:"fencing_token"`
	Value                    []byte
}

func (s *served) leader(name string) termLine {
	s.t.Helper()
	return read[termLine](s.t, s.want(0, "leader", name).stdout)
}

// spoken is a process whose lines are read one after the other.
type spoken struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func (s *served) speaking(args ...string) *spoken {
	s.t.Helper()
	cmd := s.command(args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &spoken{s.t, cmd, bufio.NewScanner(out)}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // ended already, as a rule
		_ = cmd.Wait()
	})
	return p
}

func (p *spoken) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("%q said no more", p.cmd.Args[1:])
	}
	return p.lines.Text()
}

// ends sends a signal and returns the exit code.
func (p *spoken) ends(sig syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	return p.wait()
}

func (p *spoken) wait() int {
	p.t.Helper()
	for p.lines.Scan() {
		p.t.Errorf("%q also said %q", p.cmd.Args[1:], p.lines.Text())
	}
	_ = p.cmd.Wait() // its code tells
	return shellCode(p.cmd.ProcessState)
}

func TestElectionByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	if r := s.want(0, "leader", "svc"); r.stdout != `{"name":"svc"}`+"\n" {
		t.Errorf("nobody is printed as %q", r.stdout)
	}
	watch := s.speaking("leader", "svc", "--watch")
	if got := watch.line(); got != `{"name":"svc"}` {
		t.Errorf("nobody is watched as %q", got)
	}
	first := s.speaking("elect", "svc", "--value", "10.0.0.1:80", "--label", "first")
	won := read[termLine](t, first.line())
	if won.Name != "svc" || won.FencingToken == "" || won.Fence != won.FencingToken || won.Cell == "" || string(won.Value) != "10.0.0.1:80" || won.Label != "first" {
		t.Errorf("elect printed %+v", won)
	}
	for _, seen := range []termLine{s.leader("svc"), read[termLine](t, watch.line())} {
		if seen.FencingToken != won.FencingToken || string(seen.Value) != "10.0.0.1:80" || seen.Label != "first" {
			t.Errorf("%+v is seen as %+v", won, seen)
		}
	}
	second := s.speaking("elect", "svc", "--value", "10.0.0.2:80", "--label", "second")
	s.waits("svc", 1)
	s.want(exit.CodeNotAcquired, "elect", "svc", "--wait", "0s")
	s.want(3, "elect", "svc", "--wait", "1ms", "-E", "3", "--", "true")
	if code := first.ends(syscall.SIGTERM); code != 128+int(syscall.SIGTERM) {
		t.Errorf("the first leader ended with %d", code)
	}
	next := read[termLine](t, second.line())
	if next.FencingToken <= won.FencingToken || s.leader("svc").FencingToken != next.FencingToken {
		t.Errorf("after %+v came %+v", won, next)
	}
	for seen := won; seen.FencingToken != next.FencingToken; {
		seen = read[termLine](t, watch.line()) // nobody in between, perhaps
	}
	// A leader that is broken stops, and says so.
	s.want(0, "break", "svc", "--token", next.FencingToken, "--reason", "moving on")
	if code := second.wait(); code != exit.CodeLost {
		t.Errorf("the broken leader ended with %d", code)
	}
	for watch.line() != `{"name":"svc"}` {
		// The last leader, if it has not been read above.
	}
	if code := watch.ends(syscall.SIGINT); code != 128+int(syscall.SIGINT) {
		t.Errorf("the watcher ended with %d", code)
	}
}

func TestElectRunsACommandForItsTerm(t *testing.T) {
	s := serve(t, "--store", "memory")
	r := s.want(7, "elect", "svc", "--value", "v", "--", "sh", "-c", `echo "$PAWL_NAME|$PAWL_FENCING_TOKEN|$PAWL_FENCE|$PAWL_SLOT"; exit 7`)
	part := strings.Split(strings.TrimSpace(r.stdout), "|")
	if len(part) != 4 || part[0] != "svc" || part[1] == "" || part[1] != part[2] || part[3] != "0" {
		t.Errorf("the command was told %q", r.stdout)
	}
	leading := s.speaking("elect", "svc", "--value", "v", "--ttl", "1h", "--", "sh", "-c", "echo leading; exec sleep 1000")
	if got := leading.line(); got != "leading" {
		t.Errorf("the command said %q", got)
	}
	l := s.leader("svc")
	if string(l.Value) != "v" {
		t.Errorf("the leader is %+v", l)
	}
	s.want(0, "break", "svc", "--token", l.FencingToken, "--reason", "r", "--now")
	if code := leading.wait(); code != exit.CodeLost {
		t.Errorf("it ended with %d", code)
	}
}

func TestElectRefusesInvalidFlags(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("gpu", "--ttl", "1h", "--slots", "2")
	contains(t, s.want(exit.CodeUsage, "elect", "gpu", "--", "true").stderr, "2 slots")
	for _, args := range [][]string{
		{"elect"},
		{"elect", "a", "b"},
		{"elect", "a", "--"},
		{"elect", "--", "true"},
		{"elect", "a\n"},
		{"elect", "a", "--shared"},
		{"elect", "a", "--value", strings.Repeat("v", 65537)},
		{"elect", "a", "--wait", "-1s"},
		{"elect", "a", "--lock-delay", "2h"},
		{"leader"},
		{"leader", ""},
		{"leader", "a", "b"},
		{"leader", "a\n", "--watch"},
	} {
		if r := want(t, exit.CodeUsage, args...); r.stdout != "" {
			t.Errorf("%q printed %q", args, r.stdout)
		}
	}
	want(t, exit.CodeUnavailable, "leader", "a", "--servers", closedPort(t))
	want(t, exit.CodeUnavailable, "elect", "a", "--wait", "0s", "--servers", closedPort(t))
}

// candidate is one that runs a command as long as it leads.
type candidate struct {
	t    testing.TB
	cmd  *exec.Cmd
	file string
}

func campaign(s *served, ttl time.Duration) *candidate {
	s.t.Helper()
	c := &candidate{t: s.t, file: filepath.Join(s.t.TempDir(), "token")}
	c.cmd = s.command("elect", "leader", "--ttl", ttl.String(), "--", "sh", "-c", `echo $PAWL_FENCING_TOKEN > "$0.new"; mv "$0.new" "$0"; sleep 1000`, c.file)
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.cmd.Wait()
	})
	return c
}

// token waits until it leads.
func (c *candidate) token() (n uint64) {
	c.t.Helper()
	testwait.Until(c.t, bound, "it leads", func() bool {
		raw, err := os.ReadFile(c.file)
		if err == nil {
			n, err = strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
		}
		return err == nil
	})
	return n
}

// C29: the leader is killed, not asked. Another leads after its TTL, and when the
// first comes back it can lead again, under a higher token.
func TestKilledLeaderIsSucceededAfterTTL(t *testing.T) {
	s := serve(t, "--store", "memory")
	const ttl = 4 * time.Second
	last := uint64(0)
	leader := campaign(s, ttl)
	for round := range 3 {
		first := leader.token()
		standby := campaign(s, ttl)
		s.waits("leader", 1)
		if err := leader.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := clock.Boottime()
		next := standby.token()
		if took := clock.Boottime() - killed; took > ttl+20*time.Second {
			t.Errorf("round %d: another led %v after the kill; the TTL is %v", round, took, ttl)
		}
		if first <= last || next <= first {
			t.Errorf("round %d: tokens %d, %d, %d", round, last, first, next)
		}
		last, leader = next-1, standby // its token is looked at again in the next round
	}
}
