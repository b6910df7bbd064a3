package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// quick measures pawl against etcd and prints what came of it.
func quick(ctx context.Context, k kit, p plan) error {
	folder, remove, err := k.data()
	if err != nil {
		return err
	}
	defer remove()
	starting, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	server, err := k.pawlServer(starting, folder, "pawl", nil)
	if err != nil {
		return err
	}
	defer server.stop()
	us, err := server.side(starting, 1)
	if err != nil {
		return err
	}
	defer us.close()
	peers, err := k.etcdServers(starting, folder, "etcd", 1, nil)
	if err != nil {
		return err
	}
	defer peers.stop()
	pairs, err := peers.side(starting, 1, 1)
	if err != nil {
		return err
	}
	defer pairs.close()
	turns, err := peers.side(starting, 1, p.waiters)
	if err != nil {
		return err
	}
	defer turns.close()

	var contests []contest
	for _, n := range p.callers {
		c := contest{pairsOf(n), n, []side{us.as(ours, us.pairs), pairs.as(etcdMutex, pairs.pairs)}}
		if n == 1 {
			c.sides = append(c.sides, pairs.as(etcdPut, pairs.puts))
		}
		contests = append(contests, c)
	}
	contests = append(contests, contest{handOvers(p.waiters), p.waiters, []side{us.as(ours, us.turns), turns.as(etcdMutex, turns.turns)}})
	t, err := p.run(ctx, k.to, contests)
	if err != nil {
		return err
	}
	if err := profiles(ctx, k, p, us); err != nil {
		return err
	}
	t.print(k.to)
	for _, l := range quickLines(t) {
		fmt.Fprintln(k.to, l)
	}
	return nil
}

// quickLines are the ratios that a quick run knows.
func quickLines(t *table) (all []string) {
	r := newReport()
	r.pairs(t)
	r.turns(t)
	for _, a := range aims {
		if _, ok := r.ratios[a.key]; ok {
			all = append(all, r.line(a))
		}
	}
	return all
}

// pairs takes the ratios from a table of pairs.
func (r *report) pairs(t *table) {
	one, many := pairsOf(1), pairsOf(64)
	r.note("one", slower(t.row(one, ours), t.row(one, etcdPut)))
	r.note("pairs", times(t.row(many, ours), t.row(many, etcdMutex)))
	r.note("redis", times(t.row(many, ours), t.row(many, redisSynced)))
}

// turns takes the ratios from a table of hand-overs.
func (r *report) turns(t *table) {
	what := handOvers(16)
	r.note("turns-etcd", times(t.row(what, ours), t.row(what, etcdMutex)))
	r.note("turns-zookeeper", times(t.row(what, ours), t.row(what, zookeeperLock)))
}

// note keeps a ratio; 0 is one that was not measured. One by nothing is none.
func (r *report) note(key string, v float64) {
	switch {
	case v == 0:
	case math.IsInf(v, 0) || math.IsNaN(v):
		r.missing[key] = "one of the sides completed nothing"
	default:
		r.ratios[key] = v
	}
}
