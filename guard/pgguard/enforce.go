package pgguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
)

// Rule says to which resource the rows of a table belong: all to Resource, or
// each to the resource named by Prefix and what the row holds in Column, as text,
// which no setting of the writer's session changes: dates as ISO, times in UTC,
// bytea as hex. Exactly one of Resource and Column is set.
type Rule struct {
	Resource string
	Column   string
	Prefix   string
	// Always: the rule holds under session_replication_role = replica, too, which
	// only a superuser can set. A restore that disables triggers is then refused.
	Always bool
}

// Enforce makes every statement that writes the table, by whatever program, need
// a transaction that entered the resources of the rows it touches. One that did
// not fails with [CodeMissing], [CodeOtherTx] or [CodeOtherResource]. With a
// Column TRUNCATE is always refused.
//
// The table is written as in SQL ("orders", `app."Orders"`) and must be the
// role's own. Its partitions and all that inherit from it are included as they
// are now: Enforce again when one was added. A partition or an inheriting table is
// refused by itself, as is what is no table (SQLSTATE 42809): a statement that names
// its parent would not fire its triggers. Enforce replaces an earlier rule. It waits
// for transactions that write the table, and claims of any resource wait for it
// meanwhile, so that it fails with [ErrBusy] after the database's lock_timeout, or
// 10 seconds where there is none.
func (g Guard) Enforce(ctx context.Context, table string, r Rule) error {
	if (r.Resource == "") == (r.Column == "") {
		return fmt.Errorf("%w: a rule of resource %q and column %q", guard.ErrMalformed, r.Resource, r.Column)
	}
	call := fmt.Sprintf("select pawl.enforce(%s::regclass, %s, %t)", literal(table), literal(r.Resource), r.Always)
	if r.Column != "" {
		call = fmt.Sprintf("select pawl.enforce_rows(%s::regclass, %s, %s, %t)",
			literal(table), literal(r.Column), literal(r.Prefix), r.Always)
	}
	return g.changeRule(ctx, "enforce", table, call)
}

// Relax takes back what [Guard.Enforce] did to a table.
func (g Guard) Relax(ctx context.Context, table string) error {
	return g.changeRule(ctx, "relax", table, "select pawl.relax("+literal(table)+"::regclass)")
}

func (g Guard) changeRule(ctx context.Context, doing, table, call string) error {
	if table == "" {
		return errors.New("pgguard: " + doing + ": no table")
	}
	return g.inOwnTx(ctx, doing+" on "+table, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, call)
		return err
	})
}
