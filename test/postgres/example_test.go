//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// A holder that slept past its lease comes back and finishes its work, and so does a
// script without leases. In real programs the fences come from two leases, by their
// method Fence.
func Example() {
	ctx := context.Background()
	dsn, err := createDatabase(ctx, server, "example")
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE TABLE ledger (account text PRIMARY KEY, balance int);
		INSERT INTO ledger VALUES ('alice', 100)`); err != nil {
		log.Fatal(err)
	}

	g := pgguard.New(pool)
	if err := g.Install(ctx); err != nil {
		log.Fatal(err)
	}
	if err := g.Enforce(ctx, "ledger", pgguard.Rule{Resource: "ledger"}); err != nil {
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

	first := guard.Fence{Resource: "ledger", Token: 41, Cell: "default-9f86d081884c7d65"}
	if err := g.Claim(ctx, first); err != nil {
		log.Fatal(err)
	}
	old := read() // … and here the first holder falls asleep.

	second := guard.Fence{Resource: "ledger", Token: 42, Cell: "default-9f86d081884c7d65"}
	if err := g.Claim(ctx, second); err != nil {
		log.Fatal(err)
	}
	fmt.Println("second:", write(second, read()+10))

	err = write(first, old+1)
	fmt.Println("first:", err)
	fmt.Println("stale:", errors.Is(err, guard.ErrStale))
	_, err = pool.Exec(ctx, `UPDATE ledger SET balance = 0`)
	fmt.Println("script:", err)
	fmt.Println("balance:", read())
	// Output:
	// second: <nil>
	// first: guard: stale fencing token 41 for "ledger", which has seen 42
	// stale: true
	// script: ERROR: pawl guard: public.ledger was written without a fence (SQLSTATE FE002)
	// balance: 110
}
