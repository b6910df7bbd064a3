package endtoend

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

const (
	// readyAim is how soon a server should be ready on an idle machine; readyMax
	// is what a busy one is allowed.
	readyAim = time.Second
	readyMax = 15 * time.Second
	// footprintMax bounds the memory of a fresh server, in bytes, footprintMax
	// what one with nothing to do keeps of a load, the store's mapped file aside.
	footprintMax = 80 << 20
)

// memory reads a line of /proc/<pid>/status, in bytes.
func (s *server) memory(key string) int {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(key + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		s.t.Fatalf("the kernel does not tell %s", key)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return n << 10
}

// worked is the processor time that the process has used.
func (s *server) worked() time.Duration {
	s.t.Helper()
	u, err := processorTime(s.cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

func mib(n int) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// load acquires and releases n leases from some callers of one client.
func load(t *testing.T, c *pawl.Client, callers, each int) {
	t.Helper()
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	for i := range callers {
		all.Go(func() {
			for n := range each {
				l, err := c.Acquire(ctx, fmt.Sprintf("load/%d/%d", i, n%8))
				if err == nil {
					err = l.Release(ctx)
				}
				if err != nil {
					t.Errorf("acquire and release under load: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A server is ready within a second of its start, whatever it finds. What a busy
// machine adds is told apart by the processor time.
func TestReadyWithinASecond(t *testing.T) {
	for i := range testwait.Reps(5) {
		s := newServer(t)
		check := func(what string) {
			t.Helper()
			took, used := s.up(), s.worked()
			t.Logf("%d: /readyz answered 200 after %v (processor time %v): %s", i+1, took.Round(time.Millisecond), used, what)
			// Ready means served, here and now.
			if a := s.ask("POST", "/v1/leases", strings.NewReader(`{"name":"probe","ttl":"1s","wait":"1m"}`)); a.status != http.StatusOK {
				t.Errorf("%s: ready, and then: %d %s", what, a.status, a.text)
			}
			if took > readyMax || used > readyAim {
				t.Errorf("%s: ready after %v, with %v of processor time", what, took, used)
			}
		}
		check("on a fresh folder")
		c := dial(t, s.link, time.Hour)
		load(t, c, 16, 50)
		for n := range 200 {
			acquire(t, c, fmt.Sprintf("held/%d", n))
		}
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("a clean stop ended with %d:\n%s", code, s.said())
		}
		check("after a clean stop")
		load(t, c, 16, 50)
		s.stop(syscall.SIGKILL)
		check("after SIGKILL")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An idle server takes little, and gives back what a load took.
func TestFootprint(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	idle := s.memory("VmRSS")
	t.Logf("idle on a fresh folder: RSS %s, of which anonymous %s", mib(idle), mib(s.memory("RssAnon")))
	if idle >= footprintMax {
		t.Errorf("an idle server takes %s; less than %s was expected", mib(idle), mib(footprintMax))
	}
	c := dial(t, s.link, time.Minute)
	load(t, c, 64, 100)
	t.Logf("after 6,400 leases, one after the other: RSS %s, of which anonymous %s", mib(s.memory("VmRSS")), mib(s.memory("RssAnon")))
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			var held []*pawl.Lease
			for n := range 250 {
				l, err := c.Acquire(t.Context(), fmt.Sprintf("held/%d/%d", i, n))
				if err != nil {
					t.Errorf("acquire under load: %v", err)
					return
				}
				held = append(held, l)
			}
			for _, l := range held {
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("release under load: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	ended := clock.Boottime()
	t.Logf("after 16,000 leases, all at once: RSS %s, of which anonymous %s", mib(s.memory("VmRSS")), mib(s.memory("RssAnon")))
	testwait.Until(t, 2*bound, "a server with nothing to do gives back what a load took", func() bool {
		return s.memory("RssAnon") < footprintMax
	})
	t.Logf("%v later: RSS %s, of which anonymous %s", (clock.Boottime() - ended).Round(time.Second), mib(s.memory("VmRSS")), mib(s.memory("RssAnon")))
}
