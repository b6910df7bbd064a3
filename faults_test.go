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
	// inside is the lease that somebody works under, last the highest token.
	inside map[string]*pawl.Lease
	last   map[string]guard.Token
	grants int
}

func (g *ground) enter(l *pawl.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if other := g.inside[l.Name()]; other != nil && other.Context().Err() == nil && l.Context().Err() == nil {
		g.t.Errorf("%s: %d was granted while %d was in force", l.Name(), l.Token(), other.Token())
	}
	if l.Token() <= g.last[l.Name()] {
		g.t.Errorf("%s: token %d after %d", l.Name(), l.Token(), g.last[l.Name()])
	}
	g.inside[l.Name()], g.last[l.Name()] = l, l.Token()
	g.grants++
}

func (g *ground) leave(l *pawl.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside[l.Name()] == l {
		delete(g.inside, l.Name())
	}
}

// Clients that acquire, try, give up and release while the network and the
// server suffer. No two of them hold a name at once, tokens only rise, and when
// all is well again nothing is left of what was given up.
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
	g := &ground{t: t, inside: map[string]*pawl.Lease{}, last: map[string]guard.Token{}}
	end, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var paths []*pawltest.Path
	for range 4 {
		p := s.NewPath()
		paths = append(paths, p)
		c := p.Dial(t, pawl.Options{TTL: time.Duration(1+r.IntN(4)) * time.Second})
		for range 3 {
			mine := rand.New(rand.NewPCG(r.Uint64(), 0))
			workers.Go(func() { work(end, g, c, mine) })
		}
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

var names = []string{"x", "y"}

func work(end context.Context, g *ground, c *pawl.Client, r *rand.Rand) {
	pause := func(ms int) { nap(time.Duration(r.IntN(ms)) * time.Millisecond) }
	for end.Err() == nil {
		pause(200)
		ctx, cancel := context.WithTimeout(end, time.Duration(r.IntN(5000))*time.Millisecond)
		var l *pawl.Lease
		var err error
		if r.IntN(3) == 0 {
			l, err = c.TryAcquire(ctx, names[r.IntN(len(names))])
		} else {
			l, err = c.Acquire(ctx, names[r.IntN(len(names))])
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
		g.enter(l)
		pause(500)
		if r.IntN(4) == 0 {
			_ = l.Check(end)
		}
		g.leave(l)
		if err := l.Release(context.Background()); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnavailable) {
			g.t.Errorf("release: %v", err)
		}
	}
}
