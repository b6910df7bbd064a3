package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl/api/linkpb"
)

// sessions holds many sessions with a lease each and measures what their renewals cost
// the server. A client of pawl has a connection of its own, so these sessions speak the
// link's protocol directly, with as many streams on a connection as needed. They renew
// as a client does: every sixth of the TTL, a tenth early or late, on the server's
// beat. Their windows are fixed as a client's are, so that gRPC sends no ping for every
// message.
func (f *full) sessions(outer context.Context) error {
	server, err := f.kit.pawlServer(outer, f.folder, "pawl", nil)
	if err != nil {
		return err
	}
	f.atEnd(server.stop)
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	set := &sessionSet{end: cancel}
	began := time.Now()
	if err := set.open(ctx, server.link, f.plan.sessions, f.plan.connections); err != nil {
		cancel(err)
		set.all.Wait()
		return context.Cause(ctx)
	}
	opened := time.Since(began)
	fmt.Fprintf(f.kit.to, "  %d sessions opened, with a lease each, in %v\n", f.plan.sessions, opened.Round(time.Millisecond))
	if err := pause(ctx, f.plan.settle); err != nil {
		return err
	}
	cores, renewals, err := watch(ctx, server.process, &set.renewals, f.plan.steady)
	if err != nil {
		return err
	}
	memory, err := server.memory()
	if err != nil {
		return err
	}
	profile := filepath.Join(f.kit.out, "server-sessions.pprof")
	if err := fetchProfile(ctx, server.debug, f.plan.profiled, profile); err != nil {
		return err
	}
	cancel(nil)
	set.all.Wait()
	f.report.note("sessions", cores)
	text := fmt.Sprintf("%d sessions with a lease each, TTL %v, over %d connections: the server used %.3f cores over %v, %.1f µs for each of %.0f renewals a second; "+
		"it held %s, %s of it anonymous. They were opened in %.1f s.",
		f.plan.sessions, sessionsTTL, f.plan.connections, cores, f.plan.steady, cores/renewals*1e6, renewals,
		mebibytes(memory.rss), mebibytes(memory.anonymous), opened.Seconds())
	fmt.Fprintf(f.kit.to, "  %s\n  profile: go tool pprof -top %s\n", text, profile)
	f.end()
	peer, err := f.keptAlive(outer)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	fmt.Fprintf(f.kit.to, "  %s\n\n", peer)
	f.report.parts["sessions"] = text + "\n\n" + peer
	return nil
}

// sessionWindow is the window of the SDK's streams and connections, in bytes.
const sessionWindow = 1 << 20

// sessionSet is many sessions, over a few connections.
type sessionSet struct {
	end      context.CancelCauseFunc
	all      sync.WaitGroup
	renewals atomic.Int64
}

// open returns when every session holds its lease.
func (c *sessionSet) open(ctx context.Context, link string, sessions, connections int) error {
	per := (sessions + connections - 1) / connections
	var opening sync.WaitGroup
	for first := 0; first < sessions; first += per {
		conn, err := grpc.NewClient("passthrough:///"+link, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
			grpc.WithStaticStreamWindowSize(sessionWindow), grpc.WithStaticConnWindowSize(sessionWindow))
		if err != nil {
			return err
		}
		c.all.Go(func() {
			<-ctx.Done()
			_ = conn.Close() // all is over
		})
		opening.Go(func() {
			for n := first; n < min(first+per, sessions); n++ {
				if err := c.one(ctx, conn, n); err != nil {
					c.end(fmt.Errorf("session %d: %w", n, err))
					return
				}
			}
		})
	}
	opening.Wait()
	return context.Cause(ctx)
}

// one opens a session, takes its lease and lets it renew in the background.
func (c *sessionSet) one(ctx context.Context, conn *grpc.ClientConn, n int) error {
	stream, err := linkpb.NewLinkClient(conn).Attach(ctx)
	if err != nil {
		return err
	}
	hello := &linkpb.Hello{Version: 1, Generation: 1, TtlNano: int64(sessionsTTL), Label: "bench"}
	if err := stream.Send(&linkpb.ClientMessage{Hello: hello}); err != nil {
		return err
	}
	if m, err := stream.Recv(); err != nil || m.Welcome == nil {
		return fmt.Errorf("no welcome: %v, %w", m, err)
	}
	take := &linkpb.Acquire{Names: []string{fmt.Sprintf("session/%d", n)}}
	if err := stream.Send(&linkpb.ClientMessage{Requests: []*linkpb.Request{{Number: 1, What: &linkpb.Request_Acquire{Acquire: take}}}}); err != nil {
		return err
	}
	for granted := false; !granted; {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, r := range m.Replies {
			granted = granted || r.GetGranted() != nil
			if r.GetRefused() != nil {
				return fmt.Errorf("refused: %v", r.GetRefused())
			}
		}
	}
	beats := make(chan time.Time, 1)
	c.all.Go(func() { c.renew(ctx, n, stream, beats) })
	c.all.Go(func() { c.receive(ctx, n, stream, beats) })
	return nil
}

// renew renews until ctx ends. beats says after each answer when one will be.
func (c *sessionSet) renew(ctx context.Context, n int, stream grpc.BidiStreamingClient[linkpb.ClientMessage, linkpb.ServerMessage], beats <-chan time.Time) {
	const every = sessionsTTL / 6
	due := time.NewTimer(0)
	defer due.Stop()
	for number := uint64(1); ; number++ {
		at := time.Now().Add(every*9/10 + rand.N(every/5))
		due.Reset(time.Until(at))
		for waiting := true; waiting; {
			select {
			case <-due.C:
				waiting = false
			case beat := <-beats:
				at = at.Add(-(at.Sub(beat) % linkpb.BeatGap))
				due.Reset(time.Until(at))
			case <-ctx.Done():
				return
			}
		}
		if err := stream.Send(&linkpb.ClientMessage{FinishedBelow: 2, Renewal: number}); err != nil {
			c.fail(ctx, n, err)
			return
		}
	}
}

func (c *sessionSet) receive(ctx context.Context, n int, stream grpc.BidiStreamingClient[linkpb.ClientMessage, linkpb.ServerMessage], beats chan<- time.Time) {
	for {
		m, err := stream.Recv()
		switch {
		case err != nil:
			c.fail(ctx, n, err)
			return
		case m.Closed != nil:
			c.fail(ctx, n, fmt.Errorf("closed: %v", m.Closed))
			return
		case m.Renewal > 0:
			c.renewals.Add(1)
			select {
			case beats <- time.Now().Add(time.Duration(m.BeatNano)):
			default:
			}
		}
	}
}

// fail ends the run, unless it ends anyway.
func (c *sessionSet) fail(ctx context.Context, n int, err error) {
	if ctx.Err() == nil {
		c.end(fmt.Errorf("session %d was lost: %w", n, err))
	}
}

// watch measures a server for a span: its cores, and answered renewals a second,
// which are more than none.
func watch(ctx context.Context, server *process, renewed *atomic.Int64, span time.Duration) (cores, renewals float64, err error) {
	began, cpu, answered := time.Now(), server.cpu(), renewed.Load()
	if err := pause(ctx, span); err != nil {
		return 0, 0, err
	}
	cpu, answered = server.cpu()-cpu, renewed.Load()-answered
	if answered == 0 {
		return 0, 0, errors.New("no renewal was answered")
	}
	took := time.Since(began).Seconds()
	return cpu.Seconds() / took, float64(answered) / took, nil
}

// pause waits, or says why not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func mebibytes(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0") + " MiB"
}
