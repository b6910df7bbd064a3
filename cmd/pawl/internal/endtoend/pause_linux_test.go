package endtoend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// clients is how many share a server in these tests.
const clients = 20

// grants keeps every lease of a name, and what is wrong with them. A lease's
// deadline is read off the clock when the next one is granted, not when some
// goroutine hears of it, so a busy machine cannot make a test fail.
type grants struct {
	mu      sync.Mutex
	byName  map[string][]*pawl.Lease
	highest guard.Token
	wrong   []string
}

func newGrants() *grants { return &grants{byName: map[string][]*pawl.Lease{}} }

func (g *grants) add(l *pawl.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, earlier := range g.byName[l.Name()] {
		if left := earlier.Remaining(); left > 0 {
			g.wrong = append(g.wrong, fmt.Sprintf("%q has two holders: token %d has %v left, and %d was granted",
				l.Name(), earlier.Token(), left, l.Token()))
		}
		if earlier.Token() >= l.Token() {
			g.wrong = append(g.wrong, fmt.Sprintf("after token %d of %q came %d", earlier.Token(), l.Name(), l.Token()))
		}
	}
	g.byName[l.Name()] = append(g.byName[l.Name()], l)
	g.highest = max(g.highest, l.Token())
}

func (g *grants) check(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.wrong {
		t.Error(w)
	}
}

// lostBy waits for a lease to end as lost.
func lostBy(t *testing.T, l *pawl.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(bound):
		t.Fatalf("the lease of %q does not end", l.Name())
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
		t.Errorf("the lease of %q ended by %v", l.Name(), cause)
	}
}

// C20, C11: the server stands still for twice the TTL while twenty clients, ten
// of them holders, ten of them waiters for the same names, go on living.
func TestServerPausedUnderLivingClients(t *testing.T) {
	long(t)
	const ttl = 3 * time.Second
	s := newServer(t)
	s.up()
	all := newGrants()
	var holders []*pawl.Lease
	var everybody []*pawl.Client
	for i := range clients / 2 {
		c := dial(t, s.link, ttl)
		l := acquire(t, c, fmt.Sprintf("name/%d", i))
		all.add(l)
		holders, everybody = append(holders, l), append(everybody, c)
	}
	granted := make(chan *pawl.Lease, clients)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for i := range clients / 2 {
		c := dial(t, s.link, ttl)
		everybody = append(everybody, c)
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
			defer cancel()
			l, err := c.Acquire(ctx, fmt.Sprintf("name/%d", i))
			if err != nil {
				t.Errorf("a waiter of %q: %v", fmt.Sprintf("name/%d", i), err)
			} else {
				all.add(l)
			}
			granted <- l
		})
	}
	for i := range clients / 2 {
		s.waits(fmt.Sprintf("name/%d", i), 1)
	}
	before := all.highest

	at := s.pause()
	// While the server says nothing at all, everybody reports the loss.
	for _, l := range holders {
		lostBy(t, l)
	}
	for _, c := range everybody {
		awaitEvent(t, c, pawl.Lost)
	}
	until(t, at+2*ttl)
	s.resume()

	for range clients / 2 {
		l := <-granted
		if l == nil {
			continue
		}
		if l.Token() <= before {
			t.Errorf("after the pause the token %d was granted; %d had been before it", l.Token(), before)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("release %q: %v", l.Name(), err)
		}
	}
	// Those that lost their leases go on by themselves.
	for i, c := range everybody[:clients/2] {
		l := acquire(t, c, fmt.Sprintf("name/%d", i))
		all.add(l)
		if err := l.Check(t.Context()); err != nil {
			t.Errorf("%q: %v", l.Name(), err)
		}
	}
	all.check(t)
}

// C11, C48: a holder's own deadline comes before the next grant, when its network
// swallows everything. Nothing tells it of the cut.
func TestPartitionedHolderEndsBeforeNextGrant(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	all := newGrants()
	other := dial(t, s.link, time.Minute)
	for i := range testwait.Reps(20) {
		r := newRelay(t, s.link)
		l := acquire(t, dial(t, r.address, 2*time.Second), fmt.Sprintf("name/%d", i))
		all.add(l)
		r.set([]silence{silent, answersLost, requestsLost, held}[i%4])
		all.add(acquire(t, other, l.Name()))
		lostBy(t, l)
		if i%4 == 3 {
			r.set(passing) // what was held back arrives late
		}
		if h := s.lookUp(l.Name()).Holders; len(h) != 1 || h[0].FencingToken != all.highest.String() {
			t.Errorf("%q is held by %+v; %v was granted last", l.Name(), h, all.highest)
		}
	}
	all.check(t)
}

// C21: a server that is away for half a TTL costs nobody anything. A machine that
// takes long to start it again gets a longer TTL.
func TestServerAwayForHalfATTL(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		ttl := 10 * time.Second
		for !awayForHalf(t, s, how, ttl) {
			if ttl *= 2; ttl > 4*bound {
				t.Fatalf("%v: no restart is done within half of %v", how, ttl/2)
			}
		}
	}
}

// awayForHalf has the server away for half a TTL under clients that hold leases.
// It returns false, and has judged nothing, when the server was away for too much
// longer: what a holder loses after a TTL is its own deadline's doing.
func awayForHalf(t *testing.T, s *server, how syscall.Signal, ttl time.Duration) bool {
	t.Helper()
	var everybody []*pawl.Client
	var leases []*pawl.Lease
	for i := range clients {
		c := dial(t, s.link, ttl)
		everybody = append(everybody, c)
		leases = append(leases, acquire(t, c, fmt.Sprintf("name/%d", i)))
	}
	away := clock.Boottime()
	s.stop(how)
	until(t, away+ttl/2)
	s.up()
	if took := clock.Boottime() - away; took > ttl*7/10 {
		t.Logf("after %v and half of %v the restart alone took %v", how, ttl, took-ttl/2)
		for _, c := range everybody {
			_ = c.Close()
		}
		return false
	}
	for i, l := range leases {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		if err := l.Check(ctx); err != nil {
			t.Errorf("after %v and half a TTL the lease of %q: %v", how, l.Name(), err)
		}
		cancel()
		if h := s.lookUp(l.Name()).Holders; len(h) != 1 || h[0].FencingToken != leases[i].Token().String() {
			t.Errorf("after %v %q is held by %+v; %d was granted", how, l.Name(), h, l.Token())
		}
	}
	for i, c := range everybody {
		if err := c.Close(); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
		for e := range c.Events() {
			if e.Kind == pawl.Lost || e.Kind == pawl.StoreRolledBack {
				t.Errorf("client %d was told %v: %v", i, e.Kind, e.Err)
			}
		}
	}
	return true
}

// C22: restarts every half TTL do not extend a dead holder's lease. Of every tenure of
// 2 s or more at least half counts as silence. So four tenures of half a TTL are
// enough, and the grant in the last one takes a moment.
func TestRestartsDoNotExtendDeadSessions(t *testing.T) {
	long(t)
	const (
		ttl        = 6 * time.Second
		tenure     = ttl / 2
		tenuresMax = 8
	)
	s := newServer(t)
	s.up()
	// Nobody renews it: its holder is dead from the start.
	token := read[struct {
		Token string `json:"fencing_token"`
	}](t, s.want(0, "acquire", "a", "--ttl", ttl.String()).stdout).Token
	waiter := dial(t, s.link, time.Minute)
	granted := make(chan *pawl.Lease, 1)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
		defer cancel()
		l, err := waiter.Acquire(ctx, "a")
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		granted <- l
	})
	s.waits("a", 1)
	for n := 1; ; n++ {
		since := clock.Boottime()
		var l *pawl.Lease
		testwait.Until(t, bound, "a tenure goes by", func() bool {
			select {
			case l = <-granted:
				return true
			default:
				return clock.Boottime() >= since+tenure
			}
		})
		if l != nil {
			t.Logf("granted in tenure %d of %v each, TTL %v", n, tenure, ttl)
			if l.Token().String() <= token {
				t.Errorf("after %s came %d", token, l.Token())
			}
			return
		}
		if n > tenuresMax {
			t.Fatalf("after %d tenures of %v a dead holder's lease of %v is still held:\n%s", n, tenure, ttl, s.said())
		}
		s.stop(syscall.SIGKILL)
		s.up()
	}
}
