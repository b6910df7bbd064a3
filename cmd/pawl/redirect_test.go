package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// elsewhere is a server that is not the active one, as link.Server answers.
type elsewhere struct {
	linkpb.UnimplementedLinkServer
	active atomic.Pointer[string]
	waits  string
	asked  atomic.Int64
}

func (e *elsewhere) List(context.Context, *linkpb.ListRequest) (*linkpb.ListResponse, error) {
	e.asked.Add(1)
	text := "this server is not the active one" + e.waits
	st, err := status.New(codes.Unavailable, text).WithDetails(&linkpb.RefusedDetail{
		Refused: &linkpb.Refused{Reason: linkpb.Reason_REASON_UNAVAILABLE, Message: text, ActiveLink: *e.active.Load()},
	})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

func (e *elsewhere) Status(context.Context, *linkpb.StatusRequest) (*linkpb.StatusResponse, error) {
	to := *e.active.Load()
	if to == "" {
		return &linkpb.StatusResponse{Role: "waiting"}, nil
	}
	return &linkpb.StatusResponse{Role: "standby", ActiveLink: to}, nil
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

// What servers say that answer and do not serve is told before which ones are missing.
func TestNoServerServes(t *testing.T) {
	e, waiting := standby(t, "")
	e.waits = "; it waits for a majority"
	gone, _ := nobody(t)
	r := want(t, exit.CodeUnavailable, "ls", "--servers", waiting+","+gone)
	contains(t, r.stderr, "no server serves: "+waiting+" says: this server is not the active one; it waits for a majority; no server answers at "+gone, `"pawl doctor" says what is missing`)
	contains(t, want(t, exit.CodeUnavailable, "drill", "outage", "--for", "1s", "--servers", waiting).stderr, "no server serves, so no outage is begun")
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

// A standby that names an address whose certificate does not fit is told with
// its own address: nobody typed the other one.
func TestMisleadingRedirect(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	listen := func(name string) (string, *elsewhere) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cert, key := ca.Issue(name, func(c *x509.Certificate) {
			if name == "other" {
				c.IPAddresses = nil
			}
		}, name+".example")
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
		e := &elsewhere{}
		linkpb.RegisterLinkServer(s, e)
		go func() { _ = s.Serve(l) }() // ends with Stop
		t.Cleanup(s.Stop)
		return l.Addr().String(), e
	}
	active, _ := listen("other")
	standby, e := listen("standby")
	e.active.Store(&active)
	r := want(t, exit.CodeUnavailable, "ls", "--servers", standby, "--ca", ca.File)
	contains(t, r.stderr, "no TLS with the server at "+active, "the server at "+standby+" named this one as the active server", "--advertise")
}

// The state of the cell is the active server's to tell. What another knows nothing
// of is not shown as if it were none.
func TestStatusIsTheActiveServers(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("a", "--ttl", "1h")
	_, knowing := standby(t, s.link)
	_, waiting := standby(t, "")
	gone, _ := nobody(t)
	_, left := standby(t, gone)
	for _, servers := range []string{knowing, waiting + "," + s.link, left + "," + s.link} {
		contains(t, want(t, 0, "status", "--servers", servers).stdout, s.link+" (answers)", "token counter")
		contains(t, want(t, 0, "status", "--json", "--servers", servers).stdout, `"role":"active"`, `"leases":1`)
	}
	for servers, says := range map[string]string{left: "it stands by", waiting: "it waits for its turn"} {
		r := want(t, 0, "status", "--servers", servers)
		contains(t, r.stdout, says)
		for line := range strings.Lines(r.stdout) {
			if f := strings.Fields(line); slices.Contains([]string{"epoch", "token", "sessions", "leases", "waiters"}, f[0]) && f[len(f)-1] != "-" {
				t.Errorf("it says %q", line)
			}
		}
	}
	contains(t, want(t, 0, "status", "--json", "--servers", left).stdout, `"role":"standby"`, `"active":false`)
	_, body := s.get("/v1/status")
	contains(t, body, `"role":"active"`)
}
