package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// demand is what a full run was asked for.
type demand struct {
	rows   string
	budget time.Duration
	// page is filled in; empty: no page is.
	page string
	// smoke: see plan.smoke; no page is filled in.
	smoke bool
	// leases and sessions are other numbers of them than a plan has; 0: none.
	leases, sessions int
}

func runFull(ctx context.Context, k kit, d demand) error {
	chosen, err := choose(d.rows)
	if err != nil {
		return err
	}
	f := &full{kit: k, report: newReport()}
	var takes time.Duration
	f.plan, takes = fullPlan.fit(chosen, d.budget)
	if d.smoke {
		f.plan, d.page = fullPlan.smoke(), ""
		takes = f.plan.cost(chosen)
		fmt.Fprintln(k.to, "smoke: everything at a hundredth; the numbers say nothing")
	}
	if d.leases > 0 {
		f.plan.leases, d.page = d.leases, ""
	}
	if d.sessions > 0 {
		f.plan.sessions, d.page = d.sessions, ""
	}
	fmt.Fprintf(k.to, "%d rounds of %v, %d kills: about %v\n", f.plan.rounds, f.plan.span, f.plan.kills, takes.Round(10*time.Second))
	if takes > d.budget {
		fmt.Fprintf(k.to, "that is more than the %v it was given, and the least there is for these rows\n", d.budget)
	}
	began := time.Now()
	machine, err := k.describe(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(k.to, machine)
	for _, r := range chosen {
		if err := f.row(ctx, r); err != nil {
			return err
		}
	}
	f.report.print(k.to, !d.smoke && d.leases == 0 && d.sessions == 0)
	fmt.Fprintf(k.to, "it took %v\n", time.Since(began).Round(time.Second))
	if d.page == "" {
		return nil
	}
	page, err := filepath.Abs(d.page)
	if err != nil {
		return err
	}
	machine += fmt.Sprintf(" %d rounds of %v each, after a warm-up.", f.plan.rounds, f.plan.span)
	return fillFile(page, f.report.page(machine, len(chosen) == len(rows)))
}

// names of the sides, as tables show them.
const (
	zookeeperLock = "ZooKeeper recipe"
	redisSynced   = "Redis, appendfsync always"
	redisLoose    = "Redis, not durable"
	postgresLocks = "PostgreSQL advisory, not durable"
)

// everybody is a client of each system, with enough for callers on names of
// their own or, turns, on one name.
type everybody struct {
	us        *pawlSide
	etcd      *etcdSide
	zookeeper *zookeeperSide
	synced    *redisSide
	loose     *redisSide
	postgres  *postgresSide
}

func (f *full) everybody(ctx context.Context, callers int, turns bool, zookeeperKeys, redisKeys []string) (all everybody, err error) {
	ctx, stop := context.WithTimeout(ctx, 3*startMax)
	defer stop()
	if all.us, err = f.pawl(ctx, "pawl", 1, nil); err != nil {
		return all, err
	}
	sessions := 1
	if turns {
		sessions = callers
	}
	if all.etcd, err = f.etcd(ctx, "etcd", 1, 1, sessions, nil); err != nil {
		return all, err
	}
	if zk, err := f.kit.zookeeperServer(ctx, f.folder); err == nil {
		f.atEnd(zk.stop)
		if all.zookeeper, err = zk.side(ctx, callers); err != nil {
			return all, err
		}
		f.atEnd(all.zookeeper.close)
	} else if _, err := f.try(err, zookeeperKeys...); err != nil {
		return all, err
	}
	for _, r := range []struct {
		to     **redisSide
		synced bool
		keys   []string
	}{{&all.synced, true, redisKeys}, {&all.loose, false, nil}} {
		server, err := f.kit.redisServer(ctx, f.folder, r.synced)
		if ok, err := f.try(err, r.keys...); err != nil {
			return all, err
		} else if ok {
			f.atEnd(server.stop)
			*r.to = server.side()
			f.atEnd((*r.to).close)
		}
	}
	pg, err := f.kit.postgresServer(ctx, f.folder)
	if ok, err := f.try(err); err != nil || !ok {
		return all, err
	}
	f.atEnd(pg.stop)
	if all.postgres, err = pg.side(ctx, callers); err != nil {
		return all, err
	}
	f.atEnd(all.postgres.close)
	return all, nil
}

// pawl starts a server and clients of it, until the row's end.
func (f *full) pawl(ctx context.Context, name string, clients int, c *certs, arguments ...string) (*pawlSide, error) {
	server, err := f.kit.pawlServer(ctx, f.folder, name, c, arguments...)
	if err != nil {
		return nil, err
	}
	f.atEnd(server.stop)
	side, err := server.side(ctx, clients)
	if err != nil {
		return nil, err
	}
	f.atEnd(side.close)
	return side, nil
}

// etcd does the same with a cluster.
func (f *full) etcd(ctx context.Context, name string, members, clients, sessions int, c *certs) (*etcdSide, error) {
	servers, err := f.kit.etcdServers(ctx, f.folder, name, members, c)
	if err != nil {
		return nil, err
	}
	f.atEnd(servers.stop)
	side, err := servers.side(ctx, clients, sessions)
	if err != nil {
		return nil, err
	}
	f.atEnd(side.close)
	return side, nil
}

func (f *full) pairs(ctx context.Context) error {
	all, err := f.everybody(ctx, f.plan.most(), false, nil, []string{"redis"})
	if err != nil {
		return err
	}
	var contests []contest
	for _, n := range f.plan.callers {
		c := contest{pairsOf(n), n, all.sides(false)}
		if n == 1 {
			c.sides = append(c.sides, all.etcd.as(etcdPut, all.etcd.puts))
		}
		contests = append(contests, c)
	}
	t, err := f.contests(ctx, "pairs", contests)
	if err == nil {
		f.report.pairs(t)
	}
	return err
}

func (f *full) turns(ctx context.Context) error {
	all, err := f.everybody(ctx, f.plan.waiters, true, []string{"turns-zookeeper"}, nil)
	if err != nil {
		return err
	}
	t, err := f.contests(ctx, "turns", []contest{{handOvers(f.plan.waiters), f.plan.waiters, all.sides(true)}})
	if err == nil {
		f.report.turns(t)
	}
	return err
}

// sides are those that are here.
func (a *everybody) sides(turns bool) []side {
	pick := func(pairs, oneName acquireFunc) acquireFunc {
		if turns {
			return oneName
		}
		return pairs
	}
	sides := []side{a.us.as(ours, pick(a.us.pairs, a.us.turns)), a.etcd.as(etcdMutex, pick(a.etcd.pairs, a.etcd.turns))}
	if s := a.zookeeper; s != nil {
		sides = append(sides, s.as(zookeeperLock, pick(s.pairs, s.turns)))
	}
	if s := a.synced; s != nil {
		sides = append(sides, s.as(redisSynced, pick(s.pairs, s.turns)))
	}
	if s := a.loose; s != nil {
		sides = append(sides, s.as(redisLoose, pick(s.pairs, s.turns)))
	}
	if s := a.postgres; s != nil {
		sides = append(sides, s.as(postgresLocks, pick(s.pairs, s.turns)))
	}
	return sides
}

func (f *full) clients(ctx context.Context) error {
	n := f.plan.many
	us, err := f.pawl(ctx, "pawl", n, nil)
	if err != nil {
		return err
	}
	etcd, err := f.etcd(ctx, "etcd", 1, n, n, nil)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("pairs/s, %d clients of one caller", n)
	t, err := f.contests(ctx, "clients", []contest{{what, n, []side{us.as(ours, us.pairs), etcd.as(etcdMutex, etcd.pairs)}}})
	if err == nil {
		f.report.note("clients", times(t.row(what, ours), t.row(what, etcdMutex)))
	}
	return err
}

func (f *full) tls(ctx context.Context) error {
	c, err := newCerts(f.folder)
	if err != nil {
		return err
	}
	var pawls [2]*pawlSide
	var etcds [2]*etcdSide
	for i, c := range []*certs{nil, c} {
		if pawls[i], err = f.pawl(ctx, fmt.Sprintf("pawl-%d", i), 1, c); err != nil {
			return err
		}
		if etcds[i], err = f.etcd(ctx, fmt.Sprintf("etcd-%d", i), 1, 1, 1, c); err != nil {
			return err
		}
	}
	var contests []contest
	for _, n := range []int{1, 64} {
		for i, with := range []string{"", ", TLS"} {
			contests = append(contests, contest{pairsOf(n) + with, n, []side{
				pawls[i].as(ours, pawls[i].pairs), etcds[i].as(etcdMutex, etcds[i].pairs),
			}})
		}
	}
	_, err = f.contests(ctx, "tls", contests)
	return err
}

func (f *full) cluster(ctx context.Context) error {
	etcd, err := f.etcd(ctx, "etcd", 3, 1, 1, nil)
	if err != nil {
		return err
	}
	us, err := f.pawl(ctx, "pawl", 1, nil, onEtcd(etcd.servers)...)
	if err != nil {
		return err
	}
	var contests []contest
	for _, n := range slices.DeleteFunc(slices.Clone(f.plan.callers), func(n int) bool { return n == 16 }) {
		contests = append(contests, contest{pairsOf(n), n, []side{
			us.as(ours, us.pairs, etcd.servers.members...), etcd.as(etcdMutex, etcd.pairs),
		}})
	}
	t, err := f.contests(ctx, "cluster", contests)
	if err == nil {
		f.report.note("cluster", times(t.row(pairsOf(64), ours), t.row(pairsOf(64), etcdMutex)))
	}
	return err
}
