package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
)

// outageAlone and outageStandby are about how long it takes.
const (
	outageAlone   = time.Second
	outageStandby = 8 * time.Second // a kill and a stop
)

// onEtcd are serve's flags for a store on an etcd of its own.
func onEtcd(s *etcdServers) []string {
	return []string{"--store", "etcd", "--endpoints", strings.Join(s.links, ",")}
}

// twoOnEtcd starts two servers that keep one cell on an etcd, until the row's end. The
// second one stands by, and tells clients where to go.
func (f *full) twoOnEtcd(ctx context.Context) (two []*pawlServer, err error) {
	etcd, err := f.kit.etcdServers(ctx, f.folder, "etcd", 1, nil)
	if err != nil {
		return nil, err
	}
	f.atEnd(etcd.stop)
	for _, name := range []string{"pawl-a", "pawl-b"} {
		s, err := f.kit.pawlServer(ctx, f.folder, name, nil, onEtcd(etcd)...)
		if err != nil {
			return nil, err
		}
		f.atEnd(func() { s.stop() }) // its process is another one by then
		two = append(two, s)
	}
	return two, nil
}

// outage ends servers in both ways, one that is alone and starts again in its
// place, and the active one of two.
func (f *full) outage(ctx context.Context) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| | n | p50 | p99 | longest |\n|---|---|---|---|---|\n")
	note := func(what, key string, all []time.Duration) {
		slices.Sort(all)
		worst := all[len(all)-1]
		cells := []any{what, len(all), millis(quantile(all, 0.5)), millis(quantile(all, 0.99)), millis(worst)}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", cells...)
		fmt.Fprintf(f.kit.to, "  %s, %d times, time to the next grant: p50 %s, p99 %s, longest %s\n", cells...)
		f.report.note(key, quantile(all, 0.99).Seconds())
	}
	alone, err := f.kit.pawlServer(ctx, f.folder, "pawl", nil)
	if err != nil {
		return err
	}
	f.atEnd(func() { alone.stop() })
	inPlace := &pair{servers: []*pawlServer{alone}}
	for _, way := range ways {
		all, err := inPlace.outages(ctx, f.plan.kills, way.end)
		if err != nil {
			return fmt.Errorf("%s: %w", way.what, err)
		}
		note("the only server "+way.what+" and started again at once", way.key+"-alone", all)
	}
	alone.stop()
	servers, err := f.twoOnEtcd(ctx)
	if err != nil {
		return err
	}
	two := &pair{servers: servers}
	for _, way := range ways {
		all, err := two.outages(ctx, f.plan.kills, way.end)
		if err != nil {
			return fmt.Errorf("with a standby, %s: %w", way.what, err)
		}
		note("the active server of two on one etcd "+way.what, way.key, all)
	}
	f.report.parts["outage"] = b.String()
	return nil
}

// ways to end a server.
var ways = []struct {
	what, key string
	end       func(*pawlServer)
}{
	{"killed", "killed", func(s *pawlServer) { s.kill() }},
	{"stopped cleanly", "stopped", func(s *pawlServer) { s.stop() }},
}

// pair is one server, or two of which one stands by.
type pair struct {
	servers []*pawlServer
	judge   judge
}

// outages ends the active server n times while a client takes and gives back
// one name without a pause. What it measures is the longest time between two
// grants around each end.
func (p *pair) outages(ctx context.Context, n int, end func(*pawlServer)) (all []time.Duration, err error) {
	var more []string
	for _, s := range p.servers[1:] {
		more = append(more, s.link)
	}
	client, err := p.servers[0].dial(ctx, more...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	grants := &grants{}
	var caller sync.WaitGroup
	defer caller.Wait()
	defer cancel(nil)
	caller.Go(func() {
		if err := p.takeTurns(ctx, client, grants); err != nil {
			cancel(err)
		}
	})
	for range n {
		away, err := p.outage(ctx, grants, end)
		if err != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
		all = append(all, away)
	}
	return all, nil
}

func (p *pair) takeTurns(ctx context.Context, c *pawl.Client, g *grants) error {
	for ctx.Err() == nil {
		asked := time.Now()
		l, err := c.Acquire(ctx, "bench/outage")
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		g.add(asked, time.Now())
		h := held{name: l.Name(), token: uint64(l.Token())}
		if err := p.judge.granted(h, 0); err != nil {
			return err
		}
		p.judge.released(h)
		if err := l.Release(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, pawl.ErrUnavailable) {
			return err
		}
	}
	return nil
}

const (
	// outageMax bounds one outage, grantsBefore it must be many grants.
	outageMax    = time.Minute
	grantsBefore = 20
)

func (p *pair) outage(ctx context.Context, g *grants, end func(*pawlServer)) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, outageMax)
	defer stop()
	had := g.count()
	if err := poll(ctx, func() bool { return g.count() >= had+grantsBefore }); err != nil {
		return 0, fmt.Errorf("no grants before the end: %w", err)
	}
	i, err := p.active(ctx)
	if err != nil {
		return 0, err
	}
	server := p.servers[i]
	began := time.Now()
	end(server)
	gone := time.Now()
	if len(p.servers) == 1 {
		if err := server.start(); err != nil {
			return 0, err
		}
	}
	if err := poll(ctx, func() bool { return g.askedAfter(gone) }); err != nil {
		return 0, fmt.Errorf("no grant after the end: %w", err)
	}
	away := g.longest(began)
	if len(p.servers) == 1 {
		return away, nil
	}
	if err := server.start(); err != nil {
		return 0, err
	}
	return away, server.until(ctx, server.answers)
}

// active finds the server that decides.
func (p *pair) active(ctx context.Context) (int, error) {
	if len(p.servers) == 1 {
		return 0, nil
	}
	for i, s := range p.servers {
		if status, err := s.status(ctx); err == nil && status.Active {
			return i, nil
		}
	}
	return 0, errors.New("no server says that it is active")
}

// status asks the server how it is, and waits until it is there.
func (s *pawlServer) status(ctx context.Context) (*linkpb.StatusResponse, error) {
	conn, err := grpc.NewClient("passthrough:///"+s.link, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return linkpb.NewLinkClient(conn).Status(ctx, &linkpb.StatusRequest{}, grpc.WaitForReady(true))
}

func poll(ctx context.Context, holds func() bool) error {
	for !holds() {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// grants are the times of grants, in order.
type grants struct {
	mu  sync.Mutex
	all []granted
}

type granted struct{ asked, at time.Time }

func (g *grants) add(asked, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, granted{asked, at})
}

func (g *grants) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

func (g *grants) askedAfter(t time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all) > 0 && g.all[len(g.all)-1].asked.After(t)
}

// longest is the longest time between two grants of which the second came
// after t.
func (g *grants) longest(t time.Time) (longest time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.all) - 1; i > 0 && g.all[i].at.After(t); i-- {
		longest = max(longest, g.all[i].at.Sub(g.all[i-1].at))
	}
	return longest
}
