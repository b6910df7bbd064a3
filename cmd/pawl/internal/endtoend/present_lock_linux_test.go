package endtoend

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// TestEtcdRevisionAsToken is docs/guards-postgres.md's "the lock you have": no
// part of pawl but the guard. Two workers take turns by etcd's own Mutex and show
// its revision to the database.
//
//  1. The first locks, claims, reads the balance, and is suspended.
//  2. Its session with etcd ends; the second locks, claims, reads and writes.
//  3. The first wakes up and writes what it had computed: its lock says nothing,
//     the database refuses.
func TestEtcdRevisionAsToken(t *testing.T) {
	_, dsn := postgres(t, "present_lock")
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	g := pgguard.New(pool)
	if err := g.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE ledger (balance int); INSERT INTO ledger VALUES (100)`); err != nil {
		t.Fatal(err)
	}
	if err := g.Enforce(t.Context(), "ledger", pgguard.Rule{Resource: "ledger"}); err != nil {
		t.Fatal(err)
	}
	etcd, cluster := etcdServer(t)

	first := lockLedger(t, etcd, cluster)
	if err := g.Claim(t.Context(), first.fence); err != nil {
		t.Fatal(err)
	}
	old := balance(t, pool) // … and here it is suspended.
	if _, err := etcd.Revoke(t.Context(), first.session.Lease()); err != nil {
		t.Fatal(err)
	}

	second := lockLedger(t, etcd, cluster)
	if second.fence.Token <= first.fence.Token {
		t.Fatalf("the second lock's revision %d is not above the first's, %d", second.fence.Token, first.fence.Token)
	}
	if err := g.Claim(t.Context(), second.fence); err != nil {
		t.Fatal(err)
	}
	if err := pay(t, g, second.fence, balance(t, pool)+10); err != nil {
		t.Fatal(err)
	}

	if err := pay(t, g, first.fence, old+1); !errors.Is(err, guard.ErrStale) {
		t.Errorf("the first worker's late write: %v, want stale", err)
	}
	if b := balance(t, pool); b != 110 {
		t.Errorf("the balance is %d, want 110", b)
	}

	// A cluster that was made anew counts from low revisions again.
	other := second.fence
	other.Cell, other.Token = "etcd-another", second.fence.Token+1
	if err := g.Claim(t.Context(), other); !errors.Is(err, guard.ErrForeign) {
		t.Errorf("a revision of another cluster: %v, want foreign", err)
	}
}

type ledgerLock struct {
	session *concurrency.Session
	fence   guard.Fence
}

// lockLedger locks with a session of its own, as a process of its own does.
func lockLedger(t *testing.T, etcd *clientv3.Client, cluster string) ledgerLock {
	t.Helper()
	session, err := concurrency.NewSession(etcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Orphan)
	mutex := concurrency.NewMutex(session, "/locks/ledger")
	if err := mutex.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ledgerLock{session, guard.Fence{Resource: "ledger", Token: guard.Token(mutex.Header().Revision), Cell: cluster}}
}

func balance(t *testing.T, pool *pgxpool.Pool) (b int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT balance FROM ledger`).Scan(&b); err != nil {
		t.Fatal(err)
	}
	return b
}

func pay(t *testing.T, g pgguard.Guard, f guard.Fence, balance int) error {
	return g.InTx(t.Context(), f, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE ledger SET balance = $1`, balance)
		return err
	})
}

// etcdServer starts an etcd and returns a client and the cell's name.
func etcdServer(t *testing.T) (*clientv3.Client, string) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ListenClientUrls, cfg.ListenPeerUrls = nil, nil
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	member, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	<-member.Server.ReadyNotify()
	client := v3client.New(member.Server)
	t.Cleanup(func() { _ = client.Close() }) // the server ends with it
	return client, fmt.Sprintf("etcd-%x", uint64(member.Server.Cluster().ID()))
}
