//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// A mark that another transaction keeps from being read is no answer, and takes no longer
// than its context.
func TestSeenEndsWithItsContext(t *testing.T) {
	d := fresh(t)
	d.mustClaim(t, fence("x", 5))
	blocker := d.session(t)
	blocker.must(begin, `lock table pawl.guard in access exclusive mode`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s, err := d.guard.Seen(ctx, "x")
	if !errors.Is(err, context.DeadlineExceeded) || s != (guard.State{}) {
		t.Errorf("%+v, %v", s, err)
	}
}
