//go:build unix

package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// cellNode holds the name of this ensemble's numbers. ZooKeeper has none of its
// own, and one that was wiped counts from zero again.
const cellNode = "/pawl-cell"

// Two workers keep the lock that they have, go-zookeeper's, and show the czxid of
// their node to the database. No part of pawl runs but the guard.
func Example_zookeeper() {
	ctx := context.Background()
	keeper, err := startEnsemble(1)
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.stop()
	dsn, err := createDatabase(ctx, server, "zookeeper_example")
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	g := pgguard.New(pool)
	if err := g.Install(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `CREATE TABLE ledger (balance int); INSERT INTO ledger VALUES (100)`); err != nil {
		log.Fatal(err)
	}
	read := func() (balance int) {
		if err := pool.QueryRow(ctx, `SELECT balance FROM ledger`).Scan(&balance); err != nil {
			log.Fatal(err)
		}
		return balance
	}
	write := func(f guard.Fence, balance int) error {
		return g.InTx(ctx, f, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE ledger SET balance = $1`, balance)
			return err
		})
	}
	worker := func() (*zk.Conn, guard.Fence) {
		conn, _, err := zk.Connect(keeper.addresses(), 10*time.Second, zk.WithLogInfo(false))
		if err != nil {
			log.Fatal(err)
		}
		_, fence, err := lockWithFence(conn, "/locks/ledger", "ledger")
		if err != nil {
			log.Fatal(err)
		}
		if err := g.Claim(ctx, fence); err != nil { // before the first read
			log.Fatal(err)
		}
		return conn, fence
	}

	conn, first := worker()
	old := read() // … and here the first worker is paused, until ZooKeeper ends its session.
	conn.Close()

	conn, second := worker()
	defer conn.Close()
	fmt.Println("second:", write(second, read()+10))
	fmt.Println("its token is higher:", second.Token > first.Token)

	fmt.Println("first, late:", errors.Is(write(first, old+1), guard.ErrStale))
	fmt.Println("balance:", read())
	// Output:
	// second: <nil>
	// its token is higher: true
	// first, late: true
	// balance: 110
}

// lockWithFence locks and returns what to show to a guard. The lock knows its
// node and does not tell, so the node carries a word to be found by: by its
// place, the lowest, it could be a successor's, whose token is not ours to show.
func lockWithFence(conn *zk.Conn, path, resource string) (*zk.Lock, guard.Fence, error) {
	lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	word := rand.Text()
	if err := lock.LockWithData([]byte(word)); err != nil {
		return nil, guard.Fence{}, fmt.Errorf("lock %s: %w", path, err)
	}
	fence, err := fenceOf(conn, path, resource, word)
	if err != nil {
		return nil, guard.Fence{}, errors.Join(err, lock.Unlock())
	}
	return lock, fence, nil
}

func fenceOf(conn *zk.Conn, path, resource, word string) (guard.Fence, error) {
	cell, err := cellOf(conn)
	if err != nil {
		return guard.Fence{}, err
	}
	nodes, _, err := conn.Children(path)
	if err != nil {
		return guard.Fence{}, fmt.Errorf("look for the lock's node: %w", err)
	}
	for _, node := range nodes {
		data, stat, err := conn.Get(path + "/" + node)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return guard.Fence{}, fmt.Errorf("look for the lock's node: %w", err)
		}
		if err == nil && string(data) == word {
			return guard.Fence{Resource: resource, Token: guard.Token(stat.Czxid), Cell: cell}, nil
		}
	}
	return guard.Fence{}, fmt.Errorf("%s was lost as soon as it was locked", path)
}

// cellOf reads the name of this ensemble's numbers, and draws one where there is
// none.
func cellOf(conn *zk.Conn) (string, error) {
	for {
		name, _, err := conn.Get(cellNode)
		if !errors.Is(err, zk.ErrNoNode) {
			return string(name), err
		}
		_, err = conn.Create(cellNode, []byte("zookeeper-"+rand.Text()), 0, zk.WorldACL(zk.PermRead))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", fmt.Errorf("name the ensemble: %w", err)
		}
	}
}
