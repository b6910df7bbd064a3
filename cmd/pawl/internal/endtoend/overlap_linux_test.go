package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// overlapRounds is the full count of rounds of each kind.
const overlapRounds = 20

const (
	runTTL       = 2 * time.Second
	runKillAfter = 300 * time.Millisecond

	exitLost = 70
)

// contest is one name, its holder under pawl run and the next one, who waits.
type contest struct {
	s            *server
	name, stamps string
	holder, next *begun
}

// hold starts the first worker under pawl run, asking through the address.
// Rounds differ in how hard it is to end.
func hold(s *server, address string, i int) *contest {
	s.t.Helper()
	c := &contest{s: s, name: fmt.Sprintf("job/%s/%d", s.t.Name(), i), stamps: filepath.Join(s.t.TempDir(), "stamps")}
	worker, processes := []string{first}, 1
	if i%2 == 0 {
		worker = append(worker, deaf)
	}
	if i%3 == 0 {
		worker, processes = append(worker, escape), 2
	}
	c.holder = c.run(address, worker...)
	testwait.Until(s.t, bound, "the first worker runs", func() bool {
		select {
		case <-c.holder.ended:
			s.t.Fatalf("the holder ended: %v", c.holder.end())
		default:
		}
		return len(c.read().first) == processes
	})
	return c
}

// queue starts the next worker's pawl run.
func (c *contest) queue() {
	c.s.t.Helper()
	c.next = c.run(c.s.link, next)
	c.s.waits(c.name, 1)
}

func (c *contest) run(address string, worker ...string) *begun {
	c.s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.s.t.Fatal(err)
	}
	cmd := pawlCommand(c.s.t, 3*bound, append([]string{
		"run", c.name, "--servers", address, "--ttl", runTTL.String(), "-k", runKillAfter.String(), "--", self, c.stamps,
	}, worker...)...)
	cmd.Env = append(cmd.Env, asWorker+"=1")
	return begin(c.s.t, cmd)
}

func (c *contest) read() stamps {
	c.s.t.Helper()
	s, err := readStamps(c.stamps)
	if err != nil {
		c.s.t.Fatal(err)
	}
	return s
}

// await waits for both ends and says whether the two overlapped.
func (c *contest) await(codes ...int) bool {
	c.s.t.Helper()
	lost, won := c.holder.end(), c.next.end()
	fits := false
	for _, code := range codes {
		fits = fits || lost.code == code
	}
	if !fits {
		c.s.t.Errorf("the holder, whose lease was lost, ended with %v", lost)
	}
	if won.code != 0 {
		c.s.t.Fatalf("the next one ended with %v", won)
	}
	how := c.read().overlap()
	if how != "" {
		c.s.t.Errorf("%s: %s", c.name, how)
	}
	return how != ""
}

// count plays rounds and prints how many of them overlapped.
func count(t *testing.T, what string, round func(i int) bool) {
	t.Helper()
	overlaps, rounds := 0, testwait.Reps(overlapRounds)
	for i := range rounds {
		if round(i) {
			overlaps++
		}
	}
	t.Logf("%s: overlaps: %d/%d", what, overlaps, rounds)
}

// C11, C68: the server says nothing for longer than the lease, and goes on.
func TestRunOverlapsServerPaused(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	count(t, "server stopped for TTL + 2s", func(i int) bool {
		c := hold(s, s.link, i)
		c.queue()
		until(t, s.pause()+runTTL+2*time.Second)
		s.resume()
		return c.await(exitLost)
	})
}

// C11, C48, C68: the holder's network swallows all, or what goes one way, or
// delivers it when it is too late.
func TestRunOverlapsNetworkSilent(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	count(t, "packets dropped", func(i int) bool {
		r := newRelay(t, s.link)
		c := hold(s, r.address, i)
		c.queue()
		how := []silence{silent, answersLost, held, requestsLost}[i%4]
		r.set(how)
		defer r.close()
		if how == held {
			// What was held back arrives after the next one was granted.
			testwait.Until(t, 2*bound, "the next one has started", func() bool { return c.read().next > 0 })
			r.set(passing)
		}
		return c.await(exitLost)
	})
}

// C18: pawl run itself is stopped past its lease, or killed.
func TestRunOverlapsRunStoppedOrKilled(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	count(t, "pawl run stopped or killed", func(i int) bool {
		c := hold(s, s.link, i)
		c.queue()
		if i%2 == 0 {
			_ = c.holder.cmd.Process.Signal(syscall.SIGKILL) // its code tells
			return c.await(128 + int(syscall.SIGKILL))
		}
		_ = c.holder.cmd.Process.Signal(syscall.SIGSTOP)
		testwait.Until(t, 2*bound, "the next one has started", func() bool { return c.read().next > 0 })
		_ = c.holder.cmd.Process.Signal(syscall.SIGCONT)
		return c.await(exitLost)
	})
}

// C18: killing the command frees the name at once, and run reports it.
func TestRunCommandKilled(t *testing.T) {
	s := newServer(t)
	s.up()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stamped := filepath.Join(t.TempDir(), "stamps")
	cmd := s.command(2*bound, "run", "a", "--ttl", "1h", "--", self, stamped, first)
	cmd.Env = append(cmd.Env, asWorker+"=1")
	run := begin(t, cmd)
	var pid int
	testwait.Until(t, bound, "the worker runs", func() bool {
		seen, err := readStamps(stamped)
		if err != nil {
			t.Fatal(err)
		}
		for pid = range seen.first {
			return true
		}
		return false
	})
	began := clock.Boottime()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := run.end(); r.code != 128+int(syscall.SIGKILL) {
		t.Errorf("it ended with %v", r)
	}
	s.want(0, "run", "a", "-n", "--", "true")
	t.Logf("after %v", clock.Boottime()-began)
}

// A server that is killed and started again costs a run nothing: its command
// never hears of it, and the next one waits for its turn.
func TestRunOutlivesTheServer(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	for i, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		gate := filepath.Join(t.TempDir(), "gate")
		name := fmt.Sprintf("job/%d", i)
		holder := begin(t, s.command(3*bound, "run", name, "--ttl", "1m", "--",
			"sh", "-c", `trap 'exit 9' TERM; echo started; until [ -e "$0" ]; do sleep 0.1; done; exit 3`, gate))
		testwait.Until(t, bound, "it holds", func() bool { return len(s.lookUp(name).Holders) == 1 })
		next := begin(t, s.command(3*bound, "run", name, "--ttl", "1m", "--", "test", "-e", gate))
		s.waits(name, 1)
		token := s.lookUp(name).Holders[0].FencingToken
		s.stop(how)
		s.up()
		s.waits(name, 1) // it is back by itself
		if h := s.lookUp(name).Holders; len(h) != 1 || h[0].FencingToken != token {
			t.Errorf("after %v %q is held by %+v; %s was granted", how, name, h, token)
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := holder.end(); r.code != 3 {
			t.Errorf("after %v the holder ended with %v", how, r)
		}
		if r := next.end(); r.code != 0 {
			t.Errorf("after %v the next one ended with %v", how, r)
		}
	}
}
