package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
)

// silentServer takes connections and says nothing.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A server that says nothing on a connection holds up no command for long when
// another serves, whatever the command.
func TestSilentServerIsLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, "--store", "memory")
	servers := silentServer(t) + "," + s.link
	for _, args := range [][]string{
		{"status"},
		{"ls"},
		{"show", "a"},
		{"leader", "a"},
		{"acquire", "a"},
		{"acquire", "b", "--request-id", "r"},
		{"trace", "c"},
		{"run", "d", "-n", "--", "true"},
		{"run", "e", "--", "true"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			want(t, 0, append([]string{args[0], "--servers", servers}, args[1:]...)...)
		})
	}
}

// Where nobody but silent servers is, they are named; nothing was sent, so nothing
// can have taken effect.
func TestSilentServersAlone(t *testing.T) {
	t.Parallel()
	a, b := silentServer(t), silentServer(t)
	r := want(t, exit.CodeUnavailable, "acquire", "a", "--servers", a+","+b)
	contains(t, r.stderr, "no server answers at "+a, "no server answers at "+b, "nothing comes back")
	if strings.Contains(r.stderr, "took effect") {
		t.Errorf("it reads %q", r.stderr)
	}
}

// frozen is a server that stops after it took a request: nothing more comes of it,
// not even that it is there.
type frozen struct {
	linkpb.UnimplementedLinkServer
}

// sign answers the question whether a server is there, or does not.
type sign struct {
	health.UnimplementedHealthServer
	alive bool
}

func (f *frozen) List(ctx context.Context, _ *linkpb.ListRequest) (*linkpb.ListResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *frozen) Acquire(ctx context.Context, _ *linkpb.AcquireRequest) (*linkpb.AcquireResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *sign) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if s.alive {
		return nil, status.Error(codes.Unimplemented, "no such call")
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func freeze(t *testing.T, alive bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	linkpb.RegisterLinkServer(s, &frozen{})
	health.RegisterHealthServer(s, &sign{alive: alive})
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// A server that freezes with a request in its hands is left, too.
func TestFrozenServerIsLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, "--store", "memory")
	servers := freeze(t, false) + "," + s.link
	want(t, 0, "ls", "--servers", servers)
	want(t, 0, "acquire", "a", "--servers", servers)
}

// One that is there and takes its time is waited for; that a request may have
// taken effect is said of those alone that can take one.
func TestSlowServerIsKept(t *testing.T) {
	t.Parallel()
	slow := freeze(t, true)
	t.Run("read", func(t *testing.T) {
		t.Parallel()
		r := want(t, exit.CodeUnavailable, "ls", "--servers", slow)
		contains(t, r.stderr, "no answer from "+slow+" in time")
		if strings.Contains(r.stderr, "took effect") {
			t.Errorf("it reads %q", r.stderr)
		}
	})
	t.Run("write", func(t *testing.T) {
		t.Parallel()
		r := want(t, exit.CodeUnavailable, "acquire", "a", "--servers", slow)
		contains(t, r.stderr, "no answer from "+slow+" in time; whether the request took effect is unknown")
	})
}
