package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// plan is how much is measured.
type plan struct {
	callers []int
	waiters int
	rounds  int
	warm    time.Duration
	span    time.Duration
	// profiled is how long profiles are taken.
	profiled time.Duration
}

// quickPlan takes about two minutes.
var quickPlan = plan{
	callers: []int{1, 16, 64, 256}, waiters: 16, rounds: 3,
	warm: 400 * time.Millisecond, span: 2900 * time.Millisecond, profiled: 3 * time.Second,
}

// kit is where the binaries are and where results go.
type kit struct {
	pawl, etcd, out string
	to              io.Writer
}

// series is one row of the table: the rounds of one measurement on one side.
type series struct {
	what, side string
	rounds     []result
}

// quick measures pawl against etcd and prints what came of it.
func quick(ctx context.Context, k kit, p plan) (err error) {
	folder, err := os.MkdirTemp(k.out, "data-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	starting, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	ours, err := startPawl(starting, k.pawl, folder)
	if err != nil {
		return err
	}
	defer ours.close()
	peer, err := startEtcd(starting, k.etcd, folder, p.callers[len(p.callers)-1], p.waiters)
	if err != nil {
		return err
	}
	defer peer.close()

	t, err := p.run(ctx, k.to, ours, peer)
	if err != nil {
		return err
	}
	if err := profiles(ctx, k, p, ours); err != nil {
		return err
	}
	t.print(k.to)
	return nil
}

// contest is one measurement on both sides.
type contest struct {
	what    string
	callers int
	sides   []side
}

type side struct {
	name string
	take taker
}

func (p plan) contests(ours *pawlSide, peer *etcdSide) []contest {
	all := []contest{}
	for _, n := range p.callers {
		c := contest{pairsOf(n), n, []side{{"pawl", ours.pairs}, {"etcd Mutex", peer.pairs}}}
		if n == 1 {
			c.sides = append(c.sides, side{"etcd put", peer.puts})
		}
		all = append(all, c)
	}
	return append(all, contest{handOvers(p.waiters), p.waiters, []side{{"pawl", ours.turns}, {"etcd Mutex", peer.turns}}})
}

func pairsOf(callers int) string {
	if callers == 1 {
		return "pairs/s, 1 caller"
	}
	return fmt.Sprintf("pairs/s, %d callers", callers)
}

func handOvers(waiters int) string {
	return fmt.Sprintf("hand-overs/s, %d waiters on one name", waiters)
}

// run goes through all contests, round by round; who begins changes.
func (p plan) run(ctx context.Context, to io.Writer, ours *pawlSide, peer *etcdSide) (*table, error) {
	t := &table{}
	contests := p.contests(ours, peer)
	for round := range p.rounds {
		fmt.Fprintf(to, "round %d of %d\n", round+1, p.rounds)
		for _, c := range contests {
			for i := range c.sides {
				s := c.sides[(i+round)%len(c.sides)]
				r, err := measure(ctx, c.callers, p.warm, p.span, s.take)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", c.what, s.name, err)
				}
				t.add(c.what, s.name, r)
			}
		}
	}
	return t, nil
}
