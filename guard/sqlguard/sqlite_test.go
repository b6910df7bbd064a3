package sqlguard

import (
	"errors"
	"fmt"
	"testing"
)

// coded is an error as most drivers of SQLite have it.
type coded int

func (c coded) Error() string { return "some text" }
func (c coded) Code() int     { return int(c) }

// A driver tells by a code or by SQLite's text alone. What is not known for certain must
// not be taken for "nothing was done".
func TestSQLiteFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want failure
	}{
		{coded(5), failedBusy},
		{coded(517), failedBusy}, // BUSY_SNAPSHOT
		{coded(261), failedBusy}, // BUSY_RECOVERY
		{coded(6), failedBusy},
		{coded(19), failedCheck},
		{coded(787), failedCheck}, // CONSTRAINT_FOREIGNKEY
		{fmt.Errorf("wrapped: %w", coded(5)), failedBusy},
		{errors.New("database is locked"), failedBusy},
		{errors.New("database table is locked: list"), failedBusy},
		{errors.New("FOREIGN KEY constraint failed"), failedCheck},
		{errors.New("SQL logic error: no such table: pawl_guard (1)"), failedNoTable},
		{errors.New("no such table: pawl_guard_offset"), failedNoTable},
		{errors.New("no such table: main.pawl_guard"), failedNoTable},
		{errors.New("no such table: ledger"), failedOtherwise},
		{coded(10), failedOtherwise}, // IOERR
		{coded(13), failedOtherwise}, // FULL
		{coded(9), failedOtherwise},  // INTERRUPT
		{errors.New("connection reset by peer"), failedOtherwise},
	} {
		if got := sqliteFailure(c.err); got != c.want {
			t.Errorf("%v (%#v): %d, want %d", c.err, c.err, got, c.want)
		}
	}
}
