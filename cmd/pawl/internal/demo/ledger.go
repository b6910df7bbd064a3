package demo

import (
	"context"

	"github.com/pawlproject/pawl/guard"
)

// entry is a row of the ledger. A worker that adds one writes the balance that it
// worked out from the balance it had read: an update that is lost shows.
type entry struct {
	Who     string      `json:"who"`
	Amount  int64       `json:"amount,string"`
	Balance int64       `json:"balance,string"`
	Token   guard.Token `json:"fencing_token,omitzero"`
}

// account is a ledger at the end of an act.
type account struct {
	// Lost is by how much the balance misses the sum of what was added.
	Lost    int64   `json:"lost,string"`
	Entries []entry `json:"ledger"`
}

func accountOf(ctx context.Context, book ledger) (account, error) {
	all, err := book.entries(ctx)
	return account{lostIn(all), all}, err
}

// lostIn is by how much the last balance misses the sum of what was added.
func lostIn(entries []entry) int64 {
	sum, last := int64(openingBalance), int64(openingBalance)
	for _, e := range entries {
		sum += e.Amount
		last = e.Balance
	}
	return sum - last
}

// openingBalance is what the first row says.
const openingBalance = 100

// ledger is an account in a database.
type ledger interface {
	// create makes a ledger with nothing but its opening balance.
	create(ctx context.Context) error
	// balance reads the last one.
	balance(ctx context.Context) (int64, error)
	entries(ctx context.Context) ([]entry, error)
	// add adds an entry that nobody checks.
	add(ctx context.Context, e entry) error
	close()

	// install makes the guard, Claim is its claim, and addUnder adds an entry in
	// a transaction under a fence.
	install(ctx context.Context) error
	guard.Claimer
	addUnder(ctx context.Context, f guard.Fence, e entry) error
}

// place is where the ledgers of a demo are.
type place interface {
	setting() Setting
	// ledger opens the ledger of an act. A worker finds it by arguments and the
	// environment.
	ledger(ctx context.Context, a Act) (book ledger, args, env []string, err error)
	// remove leaves nothing of it.
	remove() error
}
