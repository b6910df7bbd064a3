package sdk

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// turns takes one name and gives it back without a pause, and knows when it was
// granted last.
type turns struct {
	mu      sync.Mutex
	granted time.Time
	grants  int
	longest time.Duration
}

func (u *turns) run(ctx context.Context, t *testing.T, c *pawl.Client) {
	for ctx.Err() == nil {
		l, err := c.Acquire(ctx, "x")
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		u.note(time.Now())
		_ = l.Release(ctx)           // a stop may come between
		time.Sleep(time.Millisecond) //tidy:bubble only called in bubbles
	}
}

func (u *turns) note(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.grants++; u.grants > 1 {
		u.longest = max(u.longest, now.Sub(u.granted))
	}
	u.granted = now
}

// more waits until there were so many more grants, and returns the longest time
// between two of them since it was asked last.
func (u *turns) more(n int) (longest time.Duration) {
	u.mu.Lock()
	n += u.grants
	u.mu.Unlock()
	for {
		u.mu.Lock()
		if u.grants >= n {
			longest, u.longest = u.longest, 0
			u.mu.Unlock()
			return longest
		}
		u.mu.Unlock()
		time.Sleep(time.Millisecond) //tidy:bubble only called in bubbles
	}
}

// takeTurns has a client of the servers take turns until the test ends.
func (p *pair) takeTurns(t *testing.T, servers ...string) *turns {
	t.Helper()
	ctx, cancel := context.WithCancel(hook.With(t.Context(), hook.Parts{Clock: clock.Bubble(), Dial: p.dial}))
	c, err := pawl.Dial(ctx, servers, pawl.Options{TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	u := &turns{}
	var caller sync.WaitGroup
	caller.Go(func() { u.run(ctx, t, c) })
	t.Cleanup(func() {
		cancel()
		caller.Wait()
		_ = c.Close()
	})
	return u
}

const (
	// endsInARow follow each other so quickly that no stream lasts a second.
	endsInARow = 30
	// grantsBetween are about a millisecond each.
	grantsBetween = 50
)

// Of two servers the active one ends and is started again as the standby, again and
// again. Its clients go on at the other server as soon as that takes over, in the last
// round as fast as in the first.
func TestTakeOversInARow(t *testing.T) {
	for way, to := range map[string]struct {
		end  func(instance)
		most time.Duration
	}{
		// A standby looks every 100 ms.
		"stopped": {func(i instance) { i.stop() }, 150 * time.Millisecond},
		"killed":  {func(i instance) { i.crash() }, activeTTL + 300*time.Millisecond},
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pair{listeners: map[string]*bufconn.Listener{}}
				disk := memstore.NewDisk()
				var servers [2]instance
				launch := func(i int) {
					servers[i] = p.launch(t, disk, []string{"first", "second"}[i], byte(i+1), clock.Bubble())
				}
				launch(0)
				<-servers[0].cell.Ready()
				launch(1)
				time.Sleep(activeTTL)
				u := p.takeTurns(t, "first", "second")
				for n := range endsInARow {
					u.more(grantsBetween)
					active, other := n%2, 1-n%2
					to.end(servers[active])
					if away := u.more(1); away > to.most {
						t.Errorf("end %d: no grant for %v", n+1, away)
					}
					if info := servers[other].cell.Info(); !info.Active {
						t.Fatalf("end %d: the standby does not serve: %+v", n+1, info)
					}
					launch(active)
				}
			})
		})
	}
}

// The only server is stopped and started again, again and again, which takes a
// tenth of a second: its clients find it soon afterwards.
func TestRestartsInARow(t *testing.T) {
	const takes = 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p := &pair{listeners: map[string]*bufconn.Listener{}}
		disk := memstore.NewDisk()
		only := p.launch(t, disk, "only", 1, clock.Bubble())
		u := p.takeTurns(t, "only")
		for n := range endsInARow {
			u.more(grantsBetween)
			only.stop()
			time.Sleep(takes)
			only = p.launch(t, disk, "only", 1, clock.Bubble())
			// Pauses double: the last one is no longer than all before it.
			if away := u.more(1); away > 3*takes {
				t.Errorf("stop %d: no grant for %v", n+1, away)
			}
		}
	})
}
