package pawl_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

var (
	reps = flag.Int("reps", 3, "how often random tests are repeated")
	seed = flag.Uint64("seed", 0, "the only seed of random tests; 0: reps fresh ones")
)

// ground is what the leases protect: it sees who believes to hold what.
type ground struct {
	t  *testing.T
	mu sync.Mutex
	// inside are the leases that somebody works under, last is the highest
	// fence; both by guard line, which for a slot is one of its own.
	inside map[string]map[*pawl.Lease]bool
	last   map[string]guard.Token
	grants int
}

func (g *ground) enter(l *pawl.Lease, shared bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range l.Names() {
		f := l.Fence(name)
		for other, alsoShared := range g.inside[f.Resource] {
			if !(shared && alsoShared) && other.Context().Err() == nil && l.Context().Err() == nil {
				g.t.Errorf("%s: %d was granted while %d was in force", f.Resource, l.Token(), other.Token())
			}
		}
		if last := g.last[f.Resource]; f.Token < last || f.Token == last && !shared {
			g.t.Errorf("%s: fence %d after %d", f.Resource, f.Token, last)
		}
		if g.inside[f.Resource] == nil {
			g.inside[f.Resource] = map[*pawl.Lease]bool{}
		}
		g.inside[f.Resource][l], g.last[f.Resource] = shared, f.Token
	}
	g.grants++
}

func (g *ground) release(l *pawl.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range l.Names() {
		delete(g.inside[l.Fence(name).Resource], l)
	}
}

// Clients that acquire in every mode, try, give up and release while the network
// and the server suffer. No two of them hold what excludes each other, fences
// only rise, and when all is well again nothing is left of what was given up,
// and observers know it.
func TestRandomFaults(t *testing.T) {
	seeds := []uint64{*seed}
	if *seed == 0 {
		seeds = seeds[:0]
		for range *reps {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, n := range seeds {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { suffer(t, rand.New(rand.NewPCG(n, 0))) })
		})
	}
}

func nap(d time.Duration) {
	time.Sleep(d) //tidy:bubble only called in TestRandomFaults
}

func suffer(t *testing.T, r *rand.Rand) {
	s := pawltest.New(t)
	g := &ground{t: t, inside: map[string]map[*pawl.Lease]bool{}, last: map[string]guard.Token{}}
	end, stop := context.WithCancel(t.Context())
	observing, stopObserving := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var clients []*pawl.Client
	var paths []*pawltest.Path
	for range 4 {
		p := s.NewPath()
		paths = append(paths, p)
		c := p.Dial(t, pawl.Options{TTL: time.Duration(1+r.IntN(4)) * time.Second})
		clients = append(clients, c)
		for range 3 {
			mine := rand.New(rand.NewPCG(r.Uint64(), 0))
			workers.Go(func() { work(end, g, c, mine) })
		}
		moods := rand.New(rand.NewPCG(r.Uint64(), 0))
		workers.Go(func() { change(end, t, c, moods) })
	}
	var watchers sync.WaitGroup
	last := make([]pawl.Leader, len(paths))
	for i, c := range clients {
		watchers.Go(func() {
			for l, err := range c.Observe(observing, names[i%len(names)]) {
				if err != nil || l.Token != 0 && l.Token == last[i].Token {
					t.Errorf("observe: %v, %v after %v", err, l, last[i])
				}
				last[i] = l
			}
		})
	}
	for range 60 {
		nap(time.Duration(r.IntN(1500)) * time.Millisecond)
		p := paths[r.IntN(len(paths))]
		switch r.IntN(10) {
		case 0, 1:
			p.Cut()
		case 2, 3:
			p.DropAnswers()
		case 4, 5:
			p.Break()
		case 6:
			s.Restart()
		case 7:
			s.Stop()
			nap(time.Duration(r.IntN(2000)) * time.Millisecond)
			s.Start()
		case 8:
			s.Pause()
			nap(time.Duration(r.IntN(3000)) * time.Millisecond)
			s.Continue()
		default:
			for _, p := range paths {
				p.Heal()
			}
		}
	}
	for _, p := range paths {
		p.Heal()
	}
	stop()
	workers.Wait()
	nap(10 * time.Second)
	stopObserving()
	watchers.Wait()
	for i, l := range last {
		if l.Token != 0 {
			t.Errorf("client %d observes %d", i, l.Token)
		}
	}
	for _, name := range names {
		if held, ok := s.Holder(t, name); ok || s.Waiting(t, name) != 0 {
			t.Errorf("%s is held under %d, %d wait", name, held, s.Waiting(t, name))
		}
	}
	if n := s.Sessions(t); n != len(paths) {
		t.Errorf("%d sessions of %d clients", n, len(paths))
	}
	if g.grants < 20 {
		t.Errorf("only %d grants", g.grants)
	}
}

// change has a client change its mind about its TTL.
func change(end context.Context, t *testing.T, c *pawl.Client, r *rand.Rand) {
	for end.Err() == nil {
		nap(time.Duration(r.IntN(8000)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(end, time.Duration(r.IntN(5000))*time.Millisecond)
		if err := c.SetTTL(ctx, time.Duration(1000+r.IntN(4000))*time.Millisecond); err != nil && !errors.Is(err, ctx.Err()) {
			t.Errorf("set the TTL: %v", err)
		}
		cancel()
	}
}

var names = []string{"x", "y", "slots"}

// mode draws what is asked for: one of two slots, or a lock of x, of y or of
// both.
func mode(r *rand.Rand) (name string, shared bool, options []pawl.AcquireOption) {
	name = names[r.IntN(len(names))]
	if name == "slots" {
		return name, false, []pawl.AcquireOption{pawl.Slots(2)}
	}
	if shared = r.IntN(3) == 0; shared {
		options = append(options, pawl.Shared())
	}
	if r.IntN(4) == 0 {
		options = append(options, pawl.Names("y", "x"))
	}
	if r.IntN(8) == 0 {
		options = append(options, pawl.LockDelay(time.Second), pawl.Value([]byte("value")))
	}
	return name, shared, options
}

func work(end context.Context, g *ground, c *pawl.Client, r *rand.Rand) {
	pause := func(ms int) { nap(time.Duration(r.IntN(ms)) * time.Millisecond) }
	for end.Err() == nil {
		pause(200)
		ctx, cancel := context.WithTimeout(end, time.Duration(r.IntN(5000))*time.Millisecond)
		var l *pawl.Lease
		var err error
		name, shared, options := mode(r)
		if r.IntN(3) == 0 {
			l, err = c.TryAcquire(ctx, name, options...)
		} else {
			l, err = c.Acquire(ctx, name, options...)
		}
		cancel()
		switch {
		case (l == nil) == (err == nil):
			g.t.Errorf("acquire: %v, %v", l, err)
		case err != nil && !errors.Is(err, pawl.ErrHeld) && !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, ctx.Err()):
			g.t.Errorf("acquire: %v", err)
		}
		if l == nil {
			continue
		}
		g.enter(l, shared)
		pause(500)
		if r.IntN(4) == 0 {
			_ = l.Check(end)
		}
		g.release(l)
		if err := l.Release(context.Background()); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnavailable) {
			g.t.Errorf("release: %v", err)
		}
	}
}
