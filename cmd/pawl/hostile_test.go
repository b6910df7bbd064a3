package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
)

// endless answers a listing with whatever it was told.
type endless struct {
	linkpb.UnimplementedLinkServer
	page func(token string) *linkpb.ListResponse
}

func (h *endless) List(_ context.Context, q *linkpb.ListRequest) (*linkpb.ListResponse, error) {
	return h.page(q.GetPageToken()), nil
}

// A server whose listing never ends, or is too large, is not listened to for ever.
func TestEndlessListingIsCutOff(t *testing.T) {
	locks := func(names ...string) (all []*linkpb.Lock) {
		for _, name := range names {
			all = append(all, &linkpb.Lock{Name: name})
		}
		return all
	}
	for what, tc := range map[string]struct {
		page func(token string) *linkpb.ListResponse
		said string
	}{
		"the same page again": {func(string) *linkpb.ListResponse { return &linkpb.ListResponse{NextPageToken: "x"} }, "the same page again"},
		"the same names": {func(token string) *linkpb.ListResponse {
			return &linkpb.ListResponse{Locks: locks("a", "b"), NextPageToken: token + "x"}
		}, "the name a after b"},
		"names without an order": {func(string) *linkpb.ListResponse { return &linkpb.ListResponse{Locks: locks("b", "a")} }, "the name a after b"},
		"too many on a page":     {func(string) *linkpb.ListResponse { return &linkpb.ListResponse{Locks: make([]*linkpb.Lock, 1001)} }, "1001 names on a page"},
		"parts of no bytes":      {func(string) *linkpb.ListResponse { return &linkpb.ListResponse{Locks: make([]*linkpb.Lock, 1<<20)} }, "more than 65536 parts"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		linkpb.RegisterLinkServer(s, &endless{page: tc.page})
		go func() { _ = s.Serve(l) }() // ends with Stop
		r := pawlCLI(t, "ls", "--servers", l.Addr().String())
		if r.code == 0 || !strings.Contains(r.stderr, tc.said) {
			t.Errorf("%s: %+v; %q was expected", what, r, tc.said)
		}
		s.Stop()
	}
}

// Whatever a configuration file holds, its values are taken or it is refused.
func FuzzSetFlag(f *testing.F) {
	f.Add([]byte("listen: a:1\nhttp-host: [a, b]\nactive-ttl: 3s\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\nhttp-host: !!binary x\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = flags.ReadConfig(newServe(), path) // it comes back
	})
}
