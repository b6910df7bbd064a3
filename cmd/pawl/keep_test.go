package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testwait"
)

// What is asked about a lease that one has waits for the only server to be started
// again: the lease outlives it.
func TestKeepingALeaseOutlivesTheServer(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, "--data", data)
	l := s.acquire("a", "--ttl", "1h")
	for _, args := range [][]string{
		{"renew", l.Lease},
		{"renew", l.Session, "--session"},
		{"release", l.Lease},
	} {
		// A slow machine does not start a server in time at every try.
		code, said := -1, ""
		for try := 0; try < 10 && code != 0; try++ {
			s.stop(syscall.SIGKILL)
			says, end := startReading(t, s, args...)
			says("pawl " + args[0] + ": waiting for a server: no server answers at " + s.link + ": connection refused")
			s = serve(t, "--data", data, "--listen", s.link)
			r := end()
			code, said = r.code, r.stderr
			if code != 0 && code != exit.CodeUnavailable {
				t.Fatalf("%q ended with %+v", args, r)
			}
		}
		if code != 0 || strings.Count(said, "\n") != 1 {
			t.Errorf("%q ended with %d and said %q", args, code, said)
		}
	}
	testwait.Until(t, bound, "the lease has ended", func() bool { return len(s.show("a").Holders) == 0 })
}

// Nobody is waited for in vain for long, and the complaint is the usual one.
func TestKeepingALeaseWithoutAServer(t *testing.T) {
	address, words := nobody(t)
	for _, verb := range []string{"renew", "release"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r := want(t, exit.CodeUnavailable, verb, "id", "--servers", address)
			contains(t, r.stderr, "pawl "+verb+": waiting for a server: "+words+"\n", "pawl "+verb+": "+words+`; is "pawl serve" running`)
			if r.stdout != "" {
				t.Errorf("it printed %q", r.stdout)
			}
		})
	}
}

// dying passes a release on, and goes before it has answered.
type dying struct {
	linkpb.UnimplementedLinkServer
	to   linkpb.LinkClient
	stop func()
}

func (d *dying) Release(ctx context.Context, q *linkpb.ReleaseRequest) (*linkpb.ReleaseResponse, error) {
	if _, err := d.to.Release(ctx, q); err != nil {
		return nil, err
	}
	go d.stop() // it waits for this call
	<-ctx.Done()
	return nil, ctx.Err()
}

func dies(t *testing.T, s *served) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.link, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	g := grpc.NewServer()
	linkpb.RegisterLinkServer(g, &dying{to: linkpb.NewLinkClient(conn), stop: g.Stop})
	go func() { _ = g.Serve(l) }() // ends with Stop
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// A release whose answer was lost is done, and the code says so, unless nobody is
// left to tell.
func TestReleaseWhoseAnswerWasLost(t *testing.T) {
	s := serve(t, "--store", "memory")
	a, b := s.acquire("a", "--ttl", "1h"), s.acquire("b", "--ttl", "1h")
	want(t, 0, "release", a.Lease, "--servers", dies(t, s)+","+s.link)
	r := want(t, exit.CodeUnavailable, "release", b.Lease, "--servers", dies(t, s))
	contains(t, r.stderr, `connection refused; whether the request took effect is unknown; is "pawl serve" running`)
	for _, name := range []string{"a", "b"} {
		if h := s.show(name).Holders; len(h) != 0 {
			t.Errorf("the holders of %s are %+v", name, h)
		}
	}
}
