package etcdstore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/storetest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// external opens a store on a cluster; what is set in opts stays.
func external(t testing.TB, c *etcdtest.Cluster, opts ExternalOptions) *External {
	t.Helper()
	e, err := tryExternal(t, c, opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tryExternal(t testing.TB, c *etcdtest.Cluster, opts ExternalOptions) (*External, error) {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if opts.Endpoints == nil {
		opts.Endpoints = c.Endpoints()
	}
	if opts.Prefix == "" {
		opts.Prefix = "/pawl/test/"
	}
	opts.Clock = clock.System()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	e, err := OpenExternal(t.Context(), opts)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e, nil
}

// refusal is the error of a store that cannot be opened on a cluster, or that fails
// later: a slow cluster has not answered when the store is opened. nil: it works.
func refusal(t testing.TB, c *etcdtest.Cluster, opts ExternalOptions) error {
	t.Helper()
	e, err := tryExternal(t, c, opts)
	if err != nil {
		return err
	}
	testwait.Until(t, bound, "the cluster takes the store or does not", func() bool { return e.verified.Load() || e.Err() != nil })
	return errors.Join(e.Err(), e.Close())
}

// admin is etcd's own client library on the cluster.
func admin(t testing.TB, c *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
	client, err := c.Client("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its cluster may be gone
	return client
}

// TestExternalContract puts a cell below a prefix of a cluster that others use
// through the whole contract: three members of the newest etcd, one of each
// older line.
func TestExternalContract(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd")
	}
	for _, version := range etcdtest.TestVersions() {
		t.Run(version, func(t *testing.T) {
			members := 1
			if version == etcdtest.Newest || os.Getenv(etcdtest.VersionEnv) != "" {
				members = 3
			}
			contract(t, etcdtest.Start(t, etcdtest.Options{Version: version, Members: members}))
		})
	}
}

func contract(t *testing.T, c *etcdtest.Cluster) {
	client := admin(t, c)
	// Patient on a busy machine, and looks often enough at how full it is.
	e := external(t, c, ExternalOptions{ActiveTTL: 6 * time.Second})
	place := 0
	storetest.Run(t, func(t *testing.T) *storetest.Place {
		place++
		prefix := fmt.Sprintf("/places/%03d/", place)
		watched := neighbours(t, client, prefix)
		t.Cleanup(func() { watched(t) })
		p := storetest.OnKVBelow(tenant{e}, clock.System(), prefix)
		p.Seeds = uint64(testwait.Reps(5))
		p.SetFull = func(full bool) { setAlarm(t, client, full) }
		return p
	})
}

// neighbours puts keys of others as close to a prefix as can be; what it returns
// fails the test when one was touched.
func neighbours(t *testing.T, client *clientv3.Client, prefix string) func(t *testing.T) {
	t.Helper()
	bare := prefix[:len(prefix)-1]
	keys := []string{
		"\x00", bare, bare + ".", bare + ".\xff", bare + "0", bare + "0\x00", bare + "\xff", prefix[:1], "\xff", "\xff\xff",
	}
	revs := map[string]int64{}
	for _, key := range keys {
		res, err := client.Put(t.Context(), key, "somebody else's")
		if err != nil {
			t.Fatal(err)
		}
		revs[key] = res.Header.Revision
	}
	return func(t *testing.T) {
		for _, key := range keys {
			// The test's own context is over when it cleans up.
			res, err := client.Get(client.Ctx(), key)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Kvs) != 1 || res.Kvs[0].ModRevision != revs[key] {
				t.Errorf("the neighbour %q was touched", key)
			}
		}
	}
}

// setAlarm raises or disarms the quota alarm, as an operator would who cannot
// wait for it.
func setAlarm(t testing.TB, client *clientv3.Client, raised bool) {
	t.Helper()
	action := pb.AlarmRequest_DEACTIVATE
	if raised {
		action = pb.AlarmRequest_ACTIVATE
	}
	members, err := client.MemberList(client.Ctx())
	if err != nil {
		t.Fatal(err)
	}
	care := clientv3.RetryMaintenanceClient(client, client.ActiveConnection())
	req := &pb.AlarmRequest{MemberID: members.Members[0].ID, Action: action, Alarm: pb.AlarmType_NOSPACE}
	if _, err := care.Alarm(client.Ctx(), req); err != nil {
		t.Fatal(err)
	}
}
