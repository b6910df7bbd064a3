package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// loaders is how many callers of one client take its leases.
	loaders = 16
	// holdersTTL outlives a take-over that is much too slow, so that its time is
	// known.
	holdersTTL = 10 * time.Minute
)

// million holds very many leases: what they cost in memory, what their
// sessions' renewals cost, and how long a server that dies under them is away.
func (f *full) million(ctx context.Context) error {
	server, err := f.kit.pawlServer(ctx, f.folder, "pawl", nil)
	if err != nil {
		return err
	}
	f.atEnd(func() { server.stop() }) // its process is another one by then
	server.ttl = holdersTTL
	us, err := server.side(ctx, f.plan.holders)
	if err != nil {
		return err
	}
	f.atEnd(us.close)
	var b strings.Builder
	say := func(format string, values ...any) {
		text := fmt.Sprintf(format, values...)
		fmt.Fprintf(f.kit.to, "  %s\n", text)
		b.WriteString(text + " ")
	}

	began := time.Now()
	leases, err := f.load(ctx, us.clients)
	if err != nil {
		return err
	}
	took := time.Since(began)
	say("%d leases of %d clients were taken in %.0f s, %.0f a second.", len(leases), len(us.clients), took.Seconds(), float64(len(leases))/took.Seconds())
	if err := pause(ctx, f.plan.settle); err != nil {
		return err
	}
	before := server.cpu()
	if err := pause(ctx, f.plan.steady); err != nil {
		return err
	}
	cores := (server.cpu() - before).Seconds() / f.plan.steady.Seconds()
	m, err := server.memory()
	if err != nil {
		return err
	}
	say("Then the server held %s, %s of it anonymous (at most %s before), and used %.3f cores.",
		mebibytes(m.rss), mebibytes(m.anonymous), mebibytes(m.highest), cores)
	f.report.note("memory", float64(m.rss)/(1<<30))
	heap := filepath.Join(f.kit.out, "server-million-heap.pprof")
	if err := fetchHeap(ctx, server.debug, heap); err != nil {
		return err
	}
	fmt.Fprintf(f.kit.to, "  heap: go tool pprof -top %s\n", heap)

	for _, way := range []struct {
		what string
		end  func()
		key  string
		// profile is taken of the second start, whose time is no ratio.
		profile string
	}{
		{"Killed and started again", func() { server.kill() }, "take-over", ""},
		{"Stopped cleanly and started again", func() { server.stop() }, "", filepath.Join(f.kit.out, "server-million-start.pprof")},
	} {
		r, err := f.restart(ctx, server, way.end, leases, way.profile)
		if err != nil {
			return fmt.Errorf("%s: %w", way.what, err)
		}
		say("%s, it granted again after %.2f s, having used %.2f s of processor time; all %d clients had been heard after %.2f s, and no lease was lost.",
			way.what, r.away.Seconds(), r.used.Seconds(), len(us.clients), r.back.Seconds())
		if way.key != "" {
			f.report.note(way.key, r.away.Seconds())
		}
	}
	if m, err = server.memory(); err != nil {
		return err
	}
	say("The server that had read them again held %s, %s of it anonymous.", mebibytes(m.rss), mebibytes(m.anonymous))
	fmt.Fprintln(f.kit.to)
	f.report.parts["million"] = strings.TrimSpace(b.String())
	return nil
}

// load lets every client take its share of the leases.
func (f *full) load(ctx context.Context, clients []*pawl.Client) ([]*pawl.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leases := make([]*pawl.Lease, f.plan.leases)
	per := len(leases) / len(clients)
	var all sync.WaitGroup
	for i, c := range clients {
		var next atomic.Int64
		for range loaders {
			all.Go(func() {
				for ctx.Err() == nil {
					n := int(next.Add(1)) - 1
					if n >= per {
						return
					}
					l, err := c.Acquire(ctx, fmt.Sprintf("orders/%07d", i*per+n))
					if err != nil {
						cancel(err)
						return
					}
					leases[i*per+n] = l
				}
			})
		}
	}
	all.Wait()
	return leases[:per*len(clients)], context.Cause(ctx)
}

// restarted says how a server's end went by: when it began, how long no grant was made,
// the processor time that those which go on had used by then, and when every client had
// had one of its leases checked.
type restarted struct {
	began            time.Time
	away, used, back time.Duration
}

// restart ends the server and starts it again at once. No lease may be lost.
func (f *full) restart(ctx context.Context, server *pawlServer, end func(), leases []*pawl.Lease, profile string) (r restarted, err error) {
	began := time.Now()
	end()
	if err := server.start(); err != nil {
		return r, err
	}
	if profile != "" {
		fetched := make(chan error, 1)
		go func() {
			fetched <- server.until(ctx, func(ctx context.Context) error { return fetchProfile(ctx, server.debug, 3*time.Second, profile) })
		}()
		defer func() { err = errors.Join(err, <-fetched) }()
		fmt.Fprintf(f.kit.to, "  profile of the start: go tool pprof -top %s\n", profile)
	}
	return f.goesOn(ctx, began, []*pawlServer{server}, leases)
}

// goesOn waits until one of the servers grants and every client was heard. The times
// count from began.
func (f *full) goesOn(ctx context.Context, began time.Time, servers []*pawlServer, leases []*pawl.Lease) (r restarted, err error) {
	used := func() (sum time.Duration) {
		for _, s := range servers {
			sum += s.cpu()
		}
		return sum
	}
	r.began = began
	before := used()
	granted := make(chan error, 1)
	go func() {
		err := firstGrant(ctx, servers)
		r.away, r.used = time.Since(began), used()-before
		granted <- err
	}()
	per := len(leases) / f.plan.holders
	var all sync.WaitGroup
	wrong := make(chan error, f.plan.holders)
	for i := range f.plan.holders {
		all.Go(func() { wrong <- leases[i*per].Check(ctx) })
	}
	all.Wait()
	r.back = time.Since(began)
	if err := <-granted; err != nil {
		return r, err
	}
	for range f.plan.holders {
		if err := <-wrong; err != nil {
			return r, fmt.Errorf("a lease was lost: %w", err)
		}
	}
	for _, l := range leases {
		if err := l.Context().Err(); err != nil {
			return r, fmt.Errorf("%s was lost: %w", l.Name(), context.Cause(l.Context()))
		}
	}
	return r, nil
}

// firstGrant returns when one of the servers granted a lease.
func firstGrant(ctx context.Context, servers []*pawlServer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	granted := make(chan error, len(servers))
	for _, s := range servers {
		go func() { granted <- grant(ctx, s.link) }()
	}
	var failed error
	for range servers {
		err := <-granted
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// grant asks again and again for a lease, as fast as a server can come back.
func grant(ctx context.Context, link string) error {
	conn, err := grpc.NewClient("passthrough:///"+link,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1, MaxDelay: 5 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := linkpb.NewLinkClient(conn)
	ctx, stop := context.WithTimeout(ctx, holdersTTL)
	defer stop()
	for n := 0; ; n++ {
		ask := &linkpb.AcquireRequest{Name: fmt.Sprintf("probe/%d-%d", time.Now().UnixNano(), n), TtlNano: int64(5 * time.Second)}
		_, err := client.Acquire(ctx, ask, grpc.WaitForReady(true))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
