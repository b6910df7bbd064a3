package etcdstore

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/store"
)

// What etcd still does at its quota alarm. That renewals go on stands on the first row:
// a Confirm is a transaction that only reads.
func TestRequestsAllowedUnderQuotaAlarm(t *testing.T) {
	onEachVersion(t, func(t *testing.T, version string) {
		c := etcdtest.Start(t, etcdtest.Options{Version: version})
		client := admin(t, c)
		s := newAppender(t, external(t, c, ExternalOptions{ActiveTTL: unhurried}))
		s.appendMany(2)
		ctx := t.Context()
		res, err := client.Put(ctx, "/somebody/else", "x")
		if err != nil {
			t.Fatal(err)
		}
		lease, err := client.Grant(ctx, 600)
		if err != nil {
			t.Fatal(err)
		}
		setAlarm(t, client, true)

		exists := clientv3.Compare(clientv3.CreateRevision("/somebody/else"), ">", 0)
		never := clientv3.Compare(clientv3.CreateRevision("/somebody/else"), "=", 0)
		get, put := clientv3.OpGet("/somebody/else"), clientv3.OpPut("/somebody/else", "y")
		txn := func(cond clientv3.Cmp, then ...clientv3.Op) error {
			_, err := client.Txn(ctx).If(cond).Then(then...).Else(get).Commit()
			return err
		}
		for _, x := range []struct {
			what  string
			works bool
			do    func() error
		}{
			{"a Confirm", true, func() error { return s.log.ten.Confirm(ctx) }},
			{"a read", true, func() error { _, err := client.Get(ctx, "/somebody/else"); return err }},
			{"a transaction that reads", true, func() error { return txn(exists, get) }},
			{"a keepalive of a lease", true, func() error { _, err := client.KeepAliveOnce(ctx, lease.ID); return err }},
			{"a batch", false, func() error { return s.log.append(ctx, 10) }},
			{"a put", false, func() error { _, err := client.Put(ctx, "/somebody/else", "y"); return err }},
			{"a transaction that puts", false, func() error { return txn(exists, put) }},
			{"a transaction with a put in the branch not taken", false, func() error { return txn(never, put) }},
			{"a new lease", false, func() error { _, err := client.Grant(ctx, 600); return err }},
			{"a compaction", true, func() error { _, err := client.Compact(ctx, res.Header.Revision); return err }},
			{"a transaction that deletes", true, func() error { return txn(exists, clientv3.OpDelete("/somebody/gone")) }},
			{"a deletion", true, func() error { _, err := client.Delete(ctx, "/somebody/else"); return err }},
		} {
			err := x.do()
			full := errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, store.ErrFull)
			if x.works && err != nil || !x.works && !full {
				t.Errorf("%s at the alarm: %v", x.what, err)
			}
		}

		setAlarm(t, client, false)
		s.appendMany(2)
	})
}
