package endtoend

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// etcdClient asks one member of an etcd without TLS.
func etcdClient(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// C26: one member of three is killed, whichever, and then the one that leads, while
// leases are held through two servers. A majority answers all the while: nobody's
// lease ends, nobody's token changes, and others are granted names.
func TestEtcdMemberKilledKeepsLeases(t *testing.T) {
	wholly(t)
	const ttl = 15 * time.Second
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	a, b := two(t, c)
	one, other := dialBoth(t, a, b, ttl), dialBoth(t, b, a, ttl)
	held := []*pawl.Lease{acquire(t, one, "held/1"), acquire(t, other, "held/2")}
	whole := func(after string) {
		t.Helper()
		for _, l := range held {
			if cause := context.Cause(l.Context()); cause != nil {
				t.Fatalf("%s: %s is over: %v", after, l.Name(), cause)
			}
		}
	}
	g := granting(t, dialBoth(t, a, b, ttl), "turn")
	g.more(20, "grants with all members")
	kill := func(m *etcdtest.Member, what string) {
		t.Helper()
		m.Kill()
		g.more(20, "grants without "+what)
		whole(what + " was killed")
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		// It counts for a majority again only when it has caught up.
		client := etcdClient(t, m.Endpoint())
		testwait.Until(t, bound, "the member that was killed answers", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := client.Get(ctx, "anything")
			return err == nil
		})
		g.more(5, "grants with "+what+" back")
		whole(what + " came back")
	}
	for _, m := range c.Members {
		kill(m, "one member")
	}
	for range testwait.Reps(5) {
		var leader *etcdtest.Member
		testwait.Until(t, bound, "somebody leads", func() bool {
			leader = c.Leader(t.Context())
			return leader != nil
		})
		kill(leader, "the member that led")
	}
	for _, l := range held {
		if err := l.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", l.Name(), err)
		}
		h := a.lookUp(l.Name()).Holders
		if len(h) == 0 {
			h = b.lookUp(l.Name()).Holders
		}
		if len(h) != 1 || h[0].FencingToken != l.Token().String() {
			t.Errorf("%s is held by %+v; %v was granted", l.Name(), h, l.Token())
		}
	}
}

// C90: an operator deletes keys of a cell while a name is held: all of them, or the
// last batch alone, in which it was granted. The server reports it and serves no one on
// lost data. Holders learn of it. Once the server is started again the name can be
// acquired, and its token is above the lost ones.
func TestEtcdKeysAreDeleted(t *testing.T) {
	wholly(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	client := etcdClient(t, c.Members[0].Endpoint())
	s := onEtcd(t, c)
	s.up()
	const ttl = 10 * time.Second
	for _, what := range []string{"last batch", "everything"} {
		holder := dial(t, s.link, ttl)
		l := acquire(t, holder, "held")
		all, err := client.Get(t.Context(), "/", clientv3.WithFromKey(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for _, kv := range all.Kvs {
			if key := string(kv.Key); strings.Contains(key, "/log/") {
				last = max(last, key)
			}
		}
		var options []clientv3.OpOption
		if what == "everything" {
			last, options = "\x00", append(options, clientv3.WithFromKey())
		}
		if gone, err := client.Delete(t.Context(), last, options...); err != nil || gone.Deleted == 0 {
			t.Fatalf("%s: nothing was deleted: %v", what, err)
		}
		// Whatever is written next finds out. Over a log that is not what it was told the
		// server ends, and is started again; where nothing is left it founds a cell.
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		go func() { _, _ = holder.Acquire(ctx, "anything") }()
		if what == "everything" {
			testwait.Until(t, bound, "the server says what was lost", func() bool {
				return strings.Contains(s.said(), "store_rolled_back: the store has nothing more of the cell")
			})
		} else {
			if code := s.end(); code == 0 || !strings.Contains(s.said(), "store_rolled_back") {
				t.Errorf("%s is deleted: the server ended with %d:\n%s", what, code, s.said())
			}
			s.up()
		}
		cancel()
		other := dial(t, s.link, ttl)
		free := acquire(t, other, "free")
		if free.Token() <= l.Token() {
			t.Errorf("%s is deleted: token %d after %d", what, free.Token(), l.Token())
		}
		testwait.Until(t, bound, "the holder is told", func() bool { return l.Context().Err() != nil })
		again := acquire(t, other, "held")
		if again.Token() <= free.Token() {
			t.Errorf("%s is deleted: token %d after %d", what, again.Token(), free.Token())
		}
		for _, x := range []*pawl.Lease{free, again} {
			if err := x.Release(t.Context()); err != nil {
				t.Errorf("%s is deleted: release: %v", what, err)
			}
		}
		_ = holder.Close() // what it held is gone
		_ = other.Close()
	}
}
