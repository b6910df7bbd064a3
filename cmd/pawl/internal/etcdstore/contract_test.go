package etcdstore

import (
	"io"
	"log/slog"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/storetest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// idle is a pace at which looking after the member does nothing during a test.
const idle = time.Hour

func open(t testing.TB, opts EmbeddedOptions) *Embedded {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if opts.Token == "" {
		opts.Token = "test-0123456789abcdef"
	}
	opts.Clock = clock.System()
	opts.Stderr = io.Discard
	opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := OpenEmbedded(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// TestContract runs the contract of a store on a member that writes to a disk. It does
// not set a store back under a running server; TestFolderSwapped does.
func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Place {
		e := open(t, EmbeddedOptions{ActiveTTL: idle})
		p := storetest.OnKV(guarded{e}, clock.System())
		p.Seeds = uint64(testwait.Reps(20))
		p.SetFull = func(full bool) {
			action := pb.AlarmRequest_DEACTIVATE
			if full {
				action = pb.AlarmRequest_ACTIVATE
			}
			req := &pb.AlarmRequest{MemberID: uint64(e.etcd.Server.MemberID()), Action: action, Alarm: pb.AlarmType_NOSPACE}
			if _, err := e.etcd.Server.Alarm(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		return p
	})
}
