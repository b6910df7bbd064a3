package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

// A holder that slept past its lease comes back and finishes what it began. In
// real life the fences come from two leases, by their method Fence.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ledger.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE ledger (account TEXT PRIMARY KEY, balance INTEGER);
		INSERT INTO ledger VALUES ('alice', 100)`); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	g := sqlguard.New(db, sqlguard.SQLite())
	if err := g.Install(ctx); err != nil {
		log.Fatal(err)
	}
	read := func() (balance int) {
		if err := db.QueryRow(`SELECT balance FROM ledger`).Scan(&balance); err != nil {
			log.Fatal(err)
		}
		return balance
	}
	write := func(f guard.Fence, balance int) error {
		return g.InTx(ctx, f, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE ledger SET balance = ?`, balance)
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
	fmt.Println("balance:", read())
	// Output:
	// second: <nil>
	// first: guard: stale fencing token 41 for "ledger", which has seen 42
	// stale: true
	// balance: 110
}
