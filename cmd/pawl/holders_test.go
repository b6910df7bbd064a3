package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// C38, C42, C55: a holder that slept past its lease comes back with the ids that it
// had, and asks the server itself: nothing in between remembers for it. What it
// releases, renews or closes is gone, and the next holder's lease is as it was: the
// third one waits.
func TestAHolderThatComesBackIsTold(t *testing.T) {
	s := serve(t, "--store", "memory")
	for round := range 3 {
		old := s.acquire("a", "--ttl", "1s")
		next := s.acquire("a", "--ttl", "1h", "--wait", "1m")
		s.want(exitLost, "renew", old.Lease)
		s.want(exitLost, "renew", "--session", old.Session)
		s.want(exitLost, "release", old.Lease)
		s.want(exitLost, "release", "--session", old.Session)
		for _, path := range []string{"/v1/leases/" + old.Lease, "/v1/sessions/" + old.Session} {
			if code, text := s.post(path+"/renew", ""); code != http.StatusNotFound {
				t.Errorf("%s renewed: %d %s", path, code, text)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+s.http+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("%s deleted: %d", path, res.StatusCode)
			}
		}
		s.want(exitNotAcquired, "acquire", "a")
		if h := s.show("a").Holders; len(h) != 1 || h[0].FencingToken != next.FencingToken {
			t.Fatalf("round %d: held by %+v; %s was granted", round, h, next.FencingToken)
		}
		if next.Lease == old.Lease || next.Session == old.Session || next.FencingToken == old.FencingToken {
			t.Errorf("round %d: an id came twice: %+v after %+v", round, next, old)
		}
		s.want(0, "renew", next.Lease)
		s.want(0, "release", next.Lease)
	}
}

// C29: the leader is killed, not asked. Another leads after its TTL, and when the
// first comes back it can lead again, under a higher token.
func TestALeaderIsKilled(t *testing.T) {
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
	s.want(exitNotAcquired, "run", "a", "-n", "--", "true")
	if err := os.WriteFile(file("end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(0, "run", "a", "-w", "1m", "--", "test", "-e", file("ended"))
	_ = cmd.Wait() // its code tells
	if code := shellCode(cmd.ProcessState); code != 5 {
		t.Errorf("run ended with %d", code)
	}
}

// C25: every duration that may be left out is given as zero. It is taken as zero, or
// refused; nothing takes it for left out.
func TestZeroIsNotAbsent(t *testing.T) {
	s := serve(t, "--store", "memory")
	for _, args := range [][]string{
		{"acquire", "a", "--ttl", "0s"},
		{"run", "a", "--ttl", "0s", "--", "true"},
		{"elect", "a", "--ttl", "0s", "--", "true"},
		{"renew", "x", "--ttl", "0s"},
		{"serve", "--store", "memory", "--active-ttl", "0s"},
	} {
		s.want(exitUsage, args...)
	}
	for path, body := range map[string]string{
		"/v1/sessions": `{"ttl":"0s"}`, "/v1/leases": `{"name":"a","ttl":"0s"}`,
	} {
		if code, text := s.post(path, body); code != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", path, body, code, text)
		}
	}
	held := s.acquire("a", "--ttl", "1h", "--lock-delay", "0s", "--wait", "0s")
	s.want(0, "break", "a", "--now", "--reason", "zero", "--token", held.FencingToken)
	s.want(0, "release", s.acquire("a", "--ttl", "1h").Lease) // closed for no time
	// No time between the request to end and the kill: the command does not get to say a word.
	held = s.acquire("held", "--ttl", "1h")
	s.want(exitNotAcquired, "run", "held", "-w", "0s", "-k", "0s", "--", "true")
	s.want(0, "release", held.Lease)
	s.want(0, "run", "held", "-k", "0s", "--", "true")
}

// C57: with no server, or with one that is none, nothing runs under a lease that was
// not granted: not the function either that is given to the SDK.
func TestDoDoesNothingWithoutALease(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("held", "--ttl", "1h")
	c, err := pawl.Dial(t.Context(), []string{s.link}, pawl.Options{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := func(what, name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := c.Do(ctx, name, func(context.Context, guard.Fence) error {
			t.Errorf("%s: it was run", what)
			return nil
		})
		if err == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	run("held", "held")
	run("no name", "")
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	run("a server that is stopped", "free")
	s.kill()
	run("no server", "free")
	for what, says := range map[string]string{"a web server": "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "nonsense": "yes\n"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := pawl.Dial(ctx, []string{badServer(t, says)}, pawl.Options{}); err == nil {
			t.Errorf("%s is taken for a server", what)
		}
		cancel()
	}
}
