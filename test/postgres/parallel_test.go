//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// One holder has as many open transactions as there are connections, and keeps
// beginning new ones. A claim of the next holder succeeds all the same, and afterwards
// none of them commits.
func TestManySharers(t *testing.T) {
	const sharers = 30
	d := fresh(t)
	f := fence("x", 5)
	d.mustClaim(t, f)

	var inside, wg sync.WaitGroup
	inside.Add(sharers)
	for i := range sharers {
		wg.Go(func() {
			err := d.guard.InTx(t.Context(), f, func(tx pgx.Tx) error {
				inside.Done()
				inside.Wait()
				return add(t.Context(), tx, "x", fmt.Sprint(i))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := d.count(t, `select count(*) from list`); n != sharers {
		t.Fatalf("%d rows, want %d", n, sharers)
	}

	for range sharers {
		wg.Go(func() {
			for {
				err := d.append(t.Context(), f, "old")
				if errors.Is(err, guard.ErrStale) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	d.mustClaim(t, fence("x", 6))
	after := d.count(t, `select count(*) from list`)
	wg.Wait()
	if n := d.count(t, `select count(*) from list`); n != after {
		t.Errorf("%d rows after the claim, and %d later", after, n)
	}
}

// insists repeats an append that others are in the way of, as one does under the
// stricter levels.
func (d *database) insists(ctx context.Context, f guard.Fence, text string) error {
	for {
		if err := d.append(ctx, f, text); !errors.Is(err, pgguard.ErrBusy) {
			return err
		}
	}
}

// The first transactions of a holder, without a claim, do not lock each other out.
func TestConcurrentFirstTransactionsDoNotDeadlock(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		d := fresh(t)
		d.guard = d.guard.Isolation(level)
		for token := range guard.Token(3) {
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					if err := d.insists(t.Context(), fence("x", token+1), fmt.Sprint(i)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if n := d.count(t, `select count(*) from list`); n != 12 {
			t.Errorf("%s: %d rows, want 12", level, n)
		}
	}
}
