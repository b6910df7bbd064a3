package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/testwait"
)

// elsewhere is a server that is not the active one, as link.Server answers.
type elsewhere struct {
	linkpb.UnimplementedLinkServer
	active atomic.Pointer[string]
	asked  atomic.Int64
}

func (e *elsewhere) List(context.Context, *linkpb.ListRequest) (*linkpb.ListResponse, error) {
	e.asked.Add(1)
	st, err := status.New(codes.Unavailable, "this server is not the active one").WithDetails(&linkpb.RefusedDetail{
		Refused: &linkpb.Refused{Reason: linkpb.Reason_REASON_UNAVAILABLE, Message: "this server is not the active one", ActiveLink: *e.active.Load()},
	})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

func standby(t *testing.T, active string) (*elsewhere, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{}
	e.active.Store(&active)
	s := grpc.NewServer()
	linkpb.RegisterLinkServer(s, e)
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	return e, l.Addr().String()
}

func TestCommandsFollowToTheActiveServer(t *testing.T) {
	s := serve(t, "--store", "memory")
	e, address := standby(t, s.link)
	want(t, 0, "ls", "--servers", address)
	if n := e.asked.Load(); n != 1 {
		t.Errorf("the standby was asked %d times", n)
	}
	// One that knows no active server yet is passed over for one that serves.
	_, waiting := standby(t, "")
	want(t, 0, "ls", "--servers", waiting+","+s.link)
}

// Servers that send a caller round in a circle are asked for a while, not for
// ever: one of them may be about to take over.
func TestCommandsDoNotRunInCircles(t *testing.T) {
	s := serve(t, "--store", "memory")
	first, a := standby(t, "")
	second, b := standby(t, a)
	first.active.Store(&b)
	cmd := command(t, "ls", "--servers", a)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "the command goes round", func() bool { return second.asked.Load() > 1 })
	first.active.Store(&s.link)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if n := second.asked.Load(); n > 1000 {
		t.Errorf("the other one was asked %d times", n)
	}
}
