package endtoend

import (
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The tenure alone is deleted, and later all keys of the cell, and a standby notices
// before the server that was active. Over the remaining log it goes on with what was
// granted. Where nothing is left it creates a cell. It reports either.
func TestEtcdStandbyFindsKeysDeleted(t *testing.T) {
	wholly(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	client := etcdClient(t, c.Members[0].Endpoint())
	for _, x := range []struct{ what, end, says string }{
		{"tenure", "/tenure", "the cell's tenure was deleted"},
		{"everything", "/", "store_rolled_back: the store has nothing more of the cell"},
	} {
		prefix := "/" + x.what + "/"
		on := []string{"--prefix", prefix}
		a, b := onEtcd(t, c, on...), onEtcd(t, c, on...)
		a.up()
		before := a.want(0, "acquire", "held", "--ttl", "5m").stdout
		b.launch()
		testwait.Until(t, bound, "the standby knows who is active", func() bool { return b.pointsAt(a) })
		a.pause()
		if gone, err := client.Delete(t.Context(), prefix+"default"+x.end, clientv3.WithPrefix()); err != nil || gone.Deleted == 0 {
			t.Fatalf("%s: nothing was deleted: %v", x.what, err)
		}
		testwait.Until(t, bound, x.what+" was deleted: the standby says so", func() bool { return strings.Contains(b.said(), x.says) })
		testwait.Until(t, bound, x.what+" was deleted: the standby takes over", func() bool {
			_, status := b.get("/v1/status")
			return strings.Contains(status, `"active":true`)
		})
		a.resume()
		if x.what == "tenure" {
			if h := b.lookUp("held").Holders; len(h) != 1 || !strings.Contains(before, h[0].FencingToken) {
				t.Errorf("held by %+v; granted was %s", h, before)
			}
			testwait.Until(t, bound, "the one that was active stands by", func() bool { return a.pointsAt(b) })
		} else {
			b.want(0, "acquire", "held")
			_, status := b.get("/v1/status")
			contains(t, status, `"store_rolled_back":true`)
			if code := a.end(); code != 65 || !strings.Contains(a.said(), "store_rolled_back") {
				t.Errorf("the one that was active ended with %d:\n%s", code, a.said())
			}
		}
	}
}

// An older tenure is restored under a newer log. The next server takes an epoch that
// was used before: it reports that and ends, and so does "pawl log dump". Started
// again, it takes the next epoch and goes on with the log.
func TestEtcdOlderTenureRestored(t *testing.T) {
	wholly(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	client := etcdClient(t, c.Members[0].Endpoint())
	s := onEtcd(t, c)
	s.up()
	s.stop(syscall.SIGTERM)
	const key = "/pawl/default/tenure"
	old, err := client.Get(t.Context(), key)
	if err != nil || len(old.Kvs) != 1 {
		t.Fatalf("the tenure is %v, %v", old, err)
	}
	s.up()
	granted := s.want(0, "acquire", "held", "--ttl", "5m").stdout
	s.stop(syscall.SIGTERM)
	if _, err := client.Put(t.Context(), key, string(old.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	s.want(65, "log", "dump", "--store", "etcd", "--endpoints", c.Members[0].Endpoint())
	s.launch()
	if code := s.end(); code != 65 || !strings.Contains(s.said(), "its key was set back") {
		t.Errorf("the server ended with %d:\n%s", code, s.said())
	}
	s.up()
	if h := s.lookUp("held").Holders; len(h) != 1 || !strings.Contains(granted, h[0].FencingToken) {
		t.Errorf("held by %+v; granted was %s", h, granted)
	}
	s.stop(syscall.SIGTERM)
	s.want(0, "log", "dump", "--store", "etcd", "--endpoints", c.Members[0].Endpoint())
}
