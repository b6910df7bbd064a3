package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// grown is how many servers keep the cell in the end.
	grown = 3
	// medianLimit and mostLimit are what the times without a grant in a step should not
	// be longer than, over ten runs.
	medianLimit = 2 * time.Second
	mostLimit   = 4 * time.Second
)

// step is what is done to a cell while it serves.
type step string

const (
	stepOne     step = "starts again as a quorum of one"
	stepThree   step = "grows to three"
	stepRestart step = "each restarted in turn"
)

// steps in their order.
var steps = []step{stepOne, stepThree, stepRestart}

// growth is what came of the runs so far.
type growth struct {
	// activeTTL is that of the servers.
	activeTTL time.Duration
	runs      int
	// lost counts accepted writes that are missing, leases those that ended without
	// their holder's doing.
	lost, leases      int64
	repeated, revived int
	pauses            map[step][]time.Duration
}

// grow lets a cell of one server become one of three under load, and restarts each of
// them in turn, so many times anew. It prints what came of it.
func grow(ctx context.Context, binary string, runs int, activeTTL time.Duration, out io.Writer) error {
	g := &growth{activeTTL: activeTTL, pauses: map[step][]time.Duration{}}
	var err error
	for range runs {
		if err = g.once(ctx, binary, out); err != nil {
			break
		}
	}
	g.show(out)
	return err
}

// show prints the closing line.
func (g *growth) show(out io.Writer) {
	fmt.Fprintf(out, "growth: %d runs lost: %d leases lost: %d repeated tokens: %d revived: %d",
		g.runs, g.lost, g.leases, g.repeated, g.revived)
	for _, what := range steps {
		if all := slices.Sorted(slices.Values(g.pauses[what])); len(all) > 0 {
			fmt.Fprintf(out, "; without a grant, %s: p50 %v, max %v", what, at(all, 50), at(all, 100))
		}
	}
	fmt.Fprintf(out, "; limits: p50 %v, max %v\n", medianLimit, mostLimit)
}

// once is one run. An error: something is wrong, and was printed.
func (g *growth) once(ctx context.Context, binary string, out io.Writer) error {
	var all []*counter
	for i := range counters {
		all = append(all, &counter{name: fmt.Sprintf("%scounter/%d", prefix, i)})
	}
	s, err := inFolder(ctx, binary, grown, out, func(ctx context.Context, s *soak) error {
		// Callers without a stream are left out: their leases end by themselves.
		s.brief, s.unary = ttl, 0
		for _, srv := range s.servers {
			srv.activeTTL = g.activeTTL
		}
		s.servers[0].args = nil
		err := s.run(ctx, s.servers[:1], func(ctx context.Context) error {
			return s.counting(ctx, all, func(ctx context.Context) error { return g.all(ctx, s) })
		})
		return errors.Join(err, g.judge(s, all))
	})
	if s == nil {
		return err
	}
	g.runs++
	s.progress()
	return err
}

// judge adds what one run found.
func (g *growth) judge(s *soak, all []*counter) error {
	var wrong []error
	for _, c := range all {
		lost := c.lost()
		g.lost += max(lost, -lost)
		if lost != 0 || c.accepted == 0 {
			wrong = append(wrong, fmt.Errorf("%s stands at %d after %d accepted writes", c.name, c.value, c.accepted))
		}
	}
	expired := s.expired.Load()
	if expired > 0 {
		wrong = append(wrong, fmt.Errorf("%d leases ended without their holder's doing", expired))
	}
	l := s.ledger
	g.leases += max(int64(l.lost), expired)
	g.repeated, g.revived = g.repeated+l.repeated, g.revived+l.revived
	return errors.Join(wrong...)
}

// counting works on counters while do does something.
func (s *soak) counting(ctx context.Context, all []*counter, do func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for i := range clients {
		c, err := pawl.Dial(ctx, s.links(), pawl.Options{TTL: ttl, Label: fmt.Sprintf("counts %d", i)})
		if err != nil {
			return err
		}
		workers.Go(func() {
			defer c.Close() // its leases were released, or have ended
			var of sync.WaitGroup
			for _, n := range all {
				of.Go(func() { s.count(working, c, n) })
			}
			of.Wait()
		})
	}
	return do(ctx)
}

// all does every step.
func (g *growth) all(ctx context.Context, s *soak) error {
	return s.taking(ctx, func(ctx context.Context, t *turns) error {
		for _, what := range steps {
			do := map[step]func(context.Context) error{
				stepOne: s.becomeOne, stepThree: s.becomeThree, stepRestart: s.restartEach,
			}[what]
			pause, err := s.pauseWhile(ctx, t, do)
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			g.pauses[what] = append(g.pauses[what], pause)
			fmt.Fprintf(s.out, "%4.0f s: %s: %v without a grant\n", s.now().Seconds(), what, pause.Round(time.Millisecond))
			// What lived through it is compared.
			if err := s.listed(ctx); err != nil {
				return fmt.Errorf("%s: list what is held: %w", what, err)
			}
		}
		return nil
	})
}

// becomeOne starts the only server again, as a quorum of one.
func (s *soak) becomeOne(ctx context.Context) error {
	s.servers[0].among(s.servers[:1])
	return s.restart(ctx, 0, 1)
}

// becomeThree adds one server after the other, and then has all of them know all.
func (s *soak) becomeThree(ctx context.Context) error {
	for i := 1; i < len(s.servers); i++ {
		srv := s.servers[i]
		if err := s.add(ctx, srv); err != nil {
			return err
		}
		srv.among(s.servers[:i+1])
		if err := srv.start(); err != nil {
			return err
		}
		if err := s.voters(ctx, i+1); err != nil {
			return err
		}
	}
	for _, srv := range s.servers {
		srv.among(s.servers)
	}
	return nil
}

// restartEach restarts every server when the others are there.
func (s *soak) restartEach(ctx context.Context) error {
	for i := range s.servers {
		if err := s.restart(ctx, i, len(s.servers)); err != nil {
			return err
		}
	}
	return nil
}

// restart stops a server cleanly, starts it, and waits until there are so many voters.
func (s *soak) restart(ctx context.Context, i, voters int) error {
	s.sample()
	ending, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	if err := s.servers[i].stop(ending); err != nil {
		return err
	}
	if err := s.servers[i].start(); err != nil {
		return err
	}
	return s.voters(ctx, voters)
}

// add lets a server join, as soon as the members can be changed.
func (s *soak) add(ctx context.Context, srv *server) error {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for {
		calling, end := context.WithTimeout(ctx, callMax)
		_, err := s.link.MemberAdd(calling, &linkpb.MemberAddRequest{Name: srv.name, Url: srv.peer})
		end()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s could not be added within %v: %w", srv.name, readyMax, err)
		}
		s.pause(ctx, errorPause)
	}
}

// voters waits until the first n servers are ready, and as many members have a vote and
// answer.
func (s *soak) voters(ctx context.Context, n int) error {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for {
		for _, srv := range s.servers[:n] {
			if srv.hasEnded() {
				return srv.failed()
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("there were not %d voters within %v", n, readyMax)
		}
		all, err := s.members(ctx)
		have := 0
		for _, m := range all {
			if m.GetRole() == "voter" && m.GetAnswers() {
				have++
			}
		}
		if err == nil && have == n && len(all) == n {
			break
		}
		s.pause(ctx, errorPause)
	}
	return s.ready(ctx, s.servers[:n])
}
