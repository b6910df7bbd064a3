package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"
)

// A mark is read for a rider every few hundred milliseconds: it may not take the whole
// busy timeout to hear that nobody wants it any more.
func TestSeenEndsWithItsContext(t *testing.T) {
	d := fresh(t, rollback, wait)
	tx, err := d.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	// The query that was given up ends with the lock.
	defer testwait.Until(t, time.Minute, "no connection is in use", func() bool { return d.Stats().InUse == 0 })
	defer func() {
		if _, err := tx.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		tx.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = d.guard.Seen(ctx, "a")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the mark of a database that another one has locked: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to end with its context", took)
	}
}
