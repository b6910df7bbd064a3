package endtoend

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// onEtcd is a server on a cluster, with a data folder of its own.
func onEtcd(t testing.TB, c *etcdtest.Cluster, args ...string) *server {
	t.Helper()
	return newServer(t, append([]string{
		"--store", "etcd", "--endpoints", strings.Join(c.Endpoints(), ","), "--active-ttl", "1s",
	}, args...)...)
}

// two servers of one cell: the first is active, the other knows it.
func two(t testing.TB, c *etcdtest.Cluster) (active, standby *server) {
	t.Helper()
	active, standby = onEtcd(t, c), onEtcd(t, c)
	active.up()
	standby.launch()
	testwait.Until(t, bound, "the standby knows who is active", func() bool { return standby.pointsAt(active) })
	return active, standby
}

// pointsAt reports whether s stands by and sends callers to other.
func (s *server) pointsAt(other *server) bool {
	code, text := s.get("/v1/status")
	return code == http.StatusOK && strings.Contains(text, `"active":false`) && strings.Contains(text, other.link)
}

func dialBoth(t testing.TB, a, b *server, ttl time.Duration) *pawl.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	c, err := pawl.Dial(ctx, []string{a.link, b.link}, pawl.Options{TTL: ttl, Label: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its servers may be gone
	return c
}

// turns acquires and releases one name in a loop and looks that tokens rise.
type turns struct {
	t      testing.TB
	client *pawl.Client
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	count int
	last  uint64
	at    time.Duration // boot time of the last one
}

func granting(t testing.TB, c *pawl.Client, name string) *turns {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	g := &turns{t: t, client: c, stop: stop}
	g.done.Go(func() {
		for ctx.Err() == nil {
			g.one(ctx, name)
		}
	})
	t.Cleanup(g.end)
	return g
}

func (g *turns) one(ctx context.Context, name string) {
	l, err := g.client.Acquire(ctx, name)
	if err != nil {
		return // a take-over; the next try finds the other server
	}
	g.mu.Lock()
	if token := uint64(l.Token()); token <= g.last {
		g.t.Errorf("token %d was granted after %d", token, g.last)
	} else {
		g.last = token
	}
	g.count++
	g.at = clock.Boottime()
	g.mu.Unlock()
	_ = l.Release(ctx) // lost in a take-over, it ends with its session
}

// more waits until so many further grants came, and returns the boot time of
// the last.
func (g *turns) more(n int, what string) time.Duration {
	g.t.Helper()
	g.mu.Lock()
	from := g.count
	g.mu.Unlock()
	var at time.Duration
	testwait.Until(g.t, bound, what, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		at = g.at
		return g.count >= from+n
	})
	return at
}

func (g *turns) end() {
	g.stop()
	g.done.Wait()
}

// Two servers of one cell on three members of etcd. The active one is killed
// again and again, and started again as the standby: grants go on, tokens rise,
// and a lease that is held lives through it all.
func TestEtcdActiveServerIsKilled(t *testing.T) {
	wholly(t)
	a, b := two(t, etcdtest.Start(t, etcdtest.Options{Members: 3}))
	c := dialBoth(t, a, b, 10*time.Second)
	held := acquire(t, c, "held")
	g := granting(t, c, "turn")
	for range testwait.Reps(10) {
		g.more(20, "grants before the kill")
		a.stop(syscall.SIGKILL)
		killed := clock.Boottime()
		took := g.more(1, "a grant by the other server") - killed
		t.Logf("granted again after %v", took.Round(time.Millisecond))
		a.launch()
		a, b = b, a
		testwait.Until(t, bound, "the killed server stands by", func() bool { return b.pointsAt(a) })
	}
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("a lease held over all take-overs: %v", err)
	}
}

// The active server is stopped, another takes over, and the stopped one comes
// back to life: it is fenced by the store and stands by.
func TestEtcdStoppedActiveServerIsFenced(t *testing.T) {
	wholly(t)
	a, b := two(t, etcdtest.Start(t, etcdtest.Options{Members: 3}))
	c := dialBoth(t, a, b, 10*time.Second)
	g := granting(t, c, "turn")
	for range testwait.Reps(5) {
		g.more(20, "grants before the stop")
		a.pause()
		g.more(20, "grants by the other server")
		a.resume()
		// A client that asks only the deposed server must not get its outdated state.
		zombie := a.command(bound, "acquire", "turns-of-the-zombie", "--wait", "30s")
		zombie.Env = append(zombie.Env, "PAWL_SERVERS="+a.link)
		if r := finish(t, zombie); r.code != 0 {
			t.Fatalf("through the zombie: %v", r)
		}
		testwait.Until(t, bound, "the zombie stands by", func() bool { return a.pointsAt(b) })
		if holder := b.lookUp("turns-of-the-zombie"); len(holder.Holders) != 1 {
			t.Errorf("granted through the zombie and unknown to the active server: %+v", holder)
		}
		b.want(0, "break", "turns-of-the-zombie", "--now", "--reason", "the round is over", "--token", b.lookUp("turns-of-the-zombie").Holders[0].FencingToken)
		g.more(20, "grants after the zombie came back")
		a, b = b, a
	}
}

// A server that stops as asked hands over at once.
func TestEtcdActiveServerStopsCleanly(t *testing.T) {
	wholly(t)
	a, b := two(t, etcdtest.Start(t, etcdtest.Options{}))
	c := dialBoth(t, a, b, 10*time.Second)
	g := granting(t, c, "turn")
	g.more(20, "grants before the stop")
	if code := a.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("a clean stop ended with %d:\n%s", code, a.said())
	}
	stopped := clock.Boottime()
	t.Logf("granted again after %v", (g.more(1, "a grant by the other server") - stopped).Round(time.Millisecond))
}

// One server alone, killed and started again: it does not wait for itself.
func TestEtcdRestartedServerDoesNotWaitForItself(t *testing.T) {
	wholly(t)
	s := onEtcd(t, etcdtest.Start(t, etcdtest.Options{Version: "3.5"}), "--active-ttl", "1m")
	s.up()
	first := read[struct {
		FencingToken string `json:"fencing_token"`
	}](t, s.want(0, "acquire", "a", "--ttl", "1h").stdout)
	s.stop(syscall.SIGKILL)
	if took := s.up(); took > 30*time.Second {
		t.Errorf("it waited %v for its own tenure to end", took)
	}
	if held := s.lookUp("a"); len(held.Holders) != 1 || held.Holders[0].FencingToken != first.FencingToken {
		t.Errorf("after a kill %q is %+v, want %s", "a", held, first.FencingToken)
	}
}
