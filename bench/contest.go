package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// contest is one measurement on several sides.
type contest struct {
	what    string
	callers int
	sides   []side
}

// side is one system under measurement: how its clients take a name, and which
// processes serve them.
type side struct {
	name    string
	take    acquireFunc
	judge   *judge
	servers []*process
}

const (
	ours      = "pawl"
	etcdMutex = "etcd Mutex"
	etcdPut   = "etcd put"
)

func pairsOf(callers int) string {
	if callers == 1 {
		return "pairs/s, 1 caller"
	}
	return fmt.Sprintf("pairs/s, %d callers", callers)
}

func handOvers(waiters int) string {
	return fmt.Sprintf("hand-overs/s, %d waiters on one name", waiters)
}

// run goes through all contests, round by round; who begins changes. No result
// is thrown away.
func (p plan) run(ctx context.Context, to io.Writer, contests []contest) (*table, error) {
	t := &table{}
	if err := p.warmUp(ctx, contests); err != nil {
		return nil, err
	}
	for round := range p.rounds {
		fmt.Fprintf(to, "  round %d of %d\n", round+1, p.rounds)
		for _, c := range contests {
			for i := range c.sides {
				s := c.sides[(i+round)%len(c.sides)]
				r, err := p.measure(ctx, c, s, p.warm, p.span)
				if err != nil {
					return nil, err
				}
				t.add(c.what, s.name, r)
			}
		}
	}
	return t, nil
}

// warmUp runs the last contest once on every side, for its caches and its
// compilers; nothing of it counts.
func (p plan) warmUp(ctx context.Context, contests []contest) error {
	if p.warmUpSpan == 0 || len(contests) == 0 {
		return nil
	}
	c := contests[len(contests)-1]
	for _, s := range c.sides {
		if _, err := p.measure(ctx, c, s, 0, p.warmUpSpan); err != nil {
			return err
		}
	}
	return nil
}

func (p plan) measure(ctx context.Context, c contest, s side, warm, span time.Duration) (result, error) {
	r, err := measure(ctx, trial{
		callers: c.callers, warm: warm, span: span, take: s.take, judge: s.judge, used: meter(s.servers...),
	})
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", c.what, s.name, err)
	}
	return r, nil
}

// lasts is how long contests take.
func (p plan) lasts(contests, sides int) time.Duration {
	return time.Duration(p.rounds*contests*sides)*(p.warm+p.span) + time.Duration(sides)*p.warmUpSpan
}
