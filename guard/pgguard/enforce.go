package pgguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
)

// Rule says to which resource the rows of a table belong: all to Resource, or each to
// the resource that is named by Prefix and the row's value in Column, as text. No
// setting of the writer's session changes that text: dates are ISO, times UTC, bytea
// hex. Set exactly one of Resource and Column.
type Rule struct {
	Resource string
	Column   string
	Prefix   string
	// Always: the rule holds under session_replication_role = replica, too, which
	// only a superuser can set. A restore that disables triggers is then refused.
	Always bool
}

// Enforce makes every statement that writes the table, from any program, need a
// transaction that entered the resources of the rows it touches. A statement without
// that fails with [CodeMissing], [CodeOtherTx] or [CodeOtherResource]. With a Column
// TRUNCATE is always refused.
//
// The table is written as in SQL ("orders", `app."Orders"`) and must belong to the
// role. Its present partitions and inheriting tables are included: call Enforce again
// after adding one. Enforce refuses a single partition, an inheriting table, and
// whatever is no table (SQLSTATE 42809): a statement that names its parent would not
// fire its triggers. Enforce replaces an earlier rule.
//
// Enforce waits for transactions that write the table. Meanwhile claims of any resource
// wait for it, so it fails with [ErrBusy] after the database's lock_timeout, or after
// 10 seconds without one.
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
