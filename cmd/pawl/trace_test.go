package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/trace"
)

// tracedRoom is a row of trace --json.
type tracedRoom struct{ Room, Step, P50, P99, Max string }

func (r tracedRoom) took(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(r.P50)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every room of a real server is told, whichever way the acquire goes, and
// together they are the whole.
func TestTraceByCommand(t *testing.T) {
	s := serve(t)
	for flag, rooms := range map[string][]trace.Room{"--json": trace.Rooms(trace.ByStream), "--unary": trace.Rooms(trace.ByCalls), "--http": trace.Rooms(trace.OverHTTP)} {
		t.Run(flag, func(t *testing.T) { traced(t, s, flag, rooms) })
	}
}

func traced(t *testing.T, s *served, flag string, rooms []trace.Room) {
	got := read[struct {
		Name         string
		FencingToken string `json:"fencing_token"`
		Times        int
		Rooms        []tracedRoom
		Total        tracedRoom
	}](t, s.want(0, "trace", "a/b", "--json", flag).stdout)
	if got.Name != "a/b" || got.FencingToken == "" || got.Times != 1 || len(got.Rooms) != len(rooms) {
		t.Fatalf("told %+v", got)
	}
	var sum time.Duration
	for i, r := range got.Rooms {
		d := r.took(t)
		if sum += d; r.Room != rooms[i].Room || r.Step != rooms[i].Step || r.P99 != r.P50 || r.Max != r.P50 {
			t.Errorf("row %d is %+v", i, r)
		}
		if r.Step == "append" && d == 0 {
			t.Error("the store took no time")
		}
	}
	if total := got.Total.took(t); sum != total {
		t.Errorf("the rooms took %v, the whole %v", sum, total)
	}

	out := s.want(0, "trace", "a/b", "-n", "20", strings.Replace(flag, "--json", "--wait=1s", 1)).stdout
	contains(t, out, "ROOM", "P50", "P99", "MAX", "of 20 acquires", "total")
	for _, r := range rooms {
		contains(t, out, r.Room, r.Step)
	}
	if locks := s.want(0, "ls").stdout; strings.Contains(locks, "a/b") {
		t.Errorf("the lease was left behind:\n%s", locks)
	}
}

func TestTraceRefusesAndWaits(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("n", "--ttl", "1m", "--label", "somebody")
	contains(t, s.want(exit.CodeNotAcquired, "trace", "n").stderr, "held by somebody", "--wait")
	contains(t, s.want(exit.CodeNotAcquired, "trace", "n", "--wait", "100ms").stderr, "not granted within 100ms")
	for _, flag := range []string{"--unary", "--http"} {
		contains(t, s.want(exit.CodeNotAcquired, "trace", "n", flag).stderr, "held by somebody")
		s.want(exit.CodeNotAcquired, "trace", "n", flag, "--wait", "100ms")
		want(t, exit.CodeUnavailable, "trace", "n", flag, "--servers", closedPort(t))
	}
	s.want(exit.CodeUsage, "trace", "n", "--unary", "--http")
	s.want(exit.CodeUsage, "trace")
	s.want(exit.CodeUsage, "trace", "n", "-n", "0")
	s.want(exit.CodeUsage, "trace", "n", "--ttl", "1ms")
	want(t, exit.CodeUnavailable, "trace", "n", "--servers", closedPort(t))
}

// untraced is a server that grants everything and tells nothing of its rooms.
type untraced struct{ linkpb.UnimplementedLinkServer }

func (untraced) Status(context.Context, *linkpb.StatusRequest) (*linkpb.StatusResponse, error) {
	return &linkpb.StatusResponse{Active: true}, nil
}

func (untraced) Acquire(context.Context, *linkpb.AcquireRequest) (*linkpb.AcquireResponse, error) {
	return &linkpb.AcquireResponse{Token: 7}, nil
}

func (untraced) Release(context.Context, *linkpb.ReleaseRequest) (*linkpb.ReleaseResponse, error) {
	return &linkpb.ReleaseResponse{}, nil
}

func (untraced) Attach(st grpc.BidiStreamingServer[linkpb.ClientMessage, linkpb.ServerMessage]) error {
	for {
		m, err := st.Recv()
		if err != nil {
			return nil
		}
		out := &linkpb.ServerMessage{Renewal: m.Renewal}
		if m.Hello != nil {
			out.Welcome = &linkpb.Welcome{
				Version: 1, Cell: "c-0123456789abcdef", Epoch: 1, Session: make([]byte, 16), TtlNano: m.Hello.TtlNano,
			}
		}
		for _, r := range m.Requests {
			a := &linkpb.Reply{Number: r.Number, What: &linkpb.Reply_Done{Done: &linkpb.Done{}}}
			if w := r.GetAcquire(); w != nil {
				a.What = &linkpb.Reply_Granted{Granted: &linkpb.Granted{Token: 7, Fences: []*linkpb.Fence{{Name: w.Names[0], Fence: 7}}}}
			}
			out.Replies = append(out.Replies, a)
		}
		if m.Close {
			out.Closed = &linkpb.Closed{}
		}
		if st.Send(out) != nil {
			return nil
		}
	}
}

func TestTraceOfServerWithoutTracing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	linkpb.RegisterLinkServer(s, untraced{})
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	contains(t, want(t, exit.CodeUnavailable, "trace", "n", "--servers", l.Addr().String()).stderr, "may be older")
	contains(t, want(t, exit.CodeUnavailable, "trace", "n", "--unary", "--servers", l.Addr().String()).stderr, "may be older")
	contains(t, want(t, exit.CodeUnavailable, "trace", "n", "--http", "--servers", l.Addr().String()).stderr, "no HTTP interface")
}
