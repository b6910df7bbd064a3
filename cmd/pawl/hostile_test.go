package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/internal/store"
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
func TestAListingThatNeverEnds(t *testing.T) {
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

// A batch of a megabyte of empty events is shown in memory that is a few times its
// size, and events that do not read are damage even where the checksum fits.
func TestHostileRecordsAreShown(t *testing.T) {
	head, err := proto.Marshal(&recordpb.Batch{Epoch: 1, Number: 1, Nonce: make([]byte, 16)})
	if err != nil {
		t.Fatal(err)
	}
	found := func(events string) *etcdstore.Found {
		body := append(bytes.Clone(head), events...)
		sum := sha256.Sum256(body)
		raw, err := proto.Marshal(&recordpb.Sealed{Format: store.Format, Sum: sum[:], Body: body})
		if err != nil {
			t.Fatal(err)
		}
		f := &etcdstore.Found{Kind: foundBatch, Number: 1}
		f.Value = raw
		return f
	}
	const event = "\x32" // the tag of a batch's events
	var before, after runtime.MemStats
	f := found(strings.Repeat(event+"\x00", store.BatchMax/2))
	runtime.ReadMemStats(&before)
	r := recordOf(f)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; f.Damage != nil || len(r.events) != store.BatchMax/2 || took > 100*store.BatchMax {
		t.Errorf("%d events, %d bytes were allocated: %v", len(r.events), took, f.Damage)
	}
	for what, events := range map[string]string{
		"an event that is none":   event + "\x01\xff",
		"a length beyond the end": event + "\xff\xff\xff\xff\x07",
		"the largest length":      event + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"an event behind another": event + "\x00" + event + "\x01\xff",
	} {
		f := found(events)
		var out bytes.Buffer
		if err := printFound(&out, f, true); err != nil || !errors.Is(f.Damage, store.ErrDamaged) && !strings.Contains(out.String(), `"bytes"`) {
			t.Errorf("%s: %v, %v: %s", what, err, f.Damage, &out)
		}
		if strings.HasPrefix(what, "an event") && (!errors.Is(f.Damage, store.ErrDamaged) || !strings.Contains(out.String(), "not an event")) {
			t.Errorf("%s: %v: %s", what, f.Damage, &out)
		}
	}
}

// Whatever a record holds, it is printed, and what does not read is damage or is shown by
// its size.
func FuzzPrintFound(f *testing.F) {
	raw, _, err := store.SealBatch(&recordpb.Batch{Epoch: 1, Number: 1, Nonce: make([]byte, 16), Events: []*recordpb.Event{
		{Kind: recordpb.Kind_KIND_GRANTED, Token: 7, Label: "a\x1b", Value: []byte("v"), Grants: []*recordpb.Grant{{Name: "n"}}, Done: []uint64{1}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, byte(0), false)
	f.Add([]byte(`{"epoch":1e308,"node":null,"a":[[]]}`), byte(2), true)
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, asJSON bool) {
		for _, sealed := range []bool{false, true} {
			if sealed { // so that what is fuzzed is not the checksum
				sum := sha256.Sum256(raw)
				var err error
				if raw, err = proto.Marshal(&recordpb.Sealed{Format: store.Format, Sum: sum[:], Body: raw}); err != nil {
					t.Fatal(err)
				}
			}
			found := &etcdstore.Found{}
			switch kind % 4 {
			case 0:
				found.Kind = foundBatch
			case 1:
				found.Kind = foundChunk
			case 2:
				found.Kind = foundTenure
			case 3:
				found.Kind = foundPointer
			}
			found.Key, found.Value = "k", raw
			var out bytes.Buffer
			if err := printFound(&out, found, asJSON); err != nil {
				t.Fatal(err)
			}
			if asJSON && !json.Valid(out.Bytes()) {
				t.Errorf("no JSON: %q", out.Bytes())
			}
			if bytes.ContainsAny(out.Bytes(), "\x1b\x00\x07") {
				t.Errorf("a terminal would obey: %q", out.Bytes())
			}
		}
	})
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
