package pawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// SetTTL gives this client's session, with all its leases, another TTL: 1 s to
// 24 h; sessions that come later have it as well. nil: the server has confirmed
// it.
//
// A higher TTL counts when SetTTL returns nil, and not before. A lower one counts
// at once: the deadline of every lease lies at most that far away. What was
// promised under the higher one the server keeps: who waits for a name may wait
// that long once more if this client dies soon after.
//
// When ctx ends first (its error, with ErrUnavailable when no server could be
// reached), or the server refuses this client (ErrDenied, ErrStoreRolledBack), the
// client goes on asking for it; [Lease.Remaining] shows what counts. Other errors
// leave the TTL as it was: ErrInvalid when it is out of bounds or the server does
// not know TTLs that change, ErrClosed. With ErrConflict another call came after
// this one, and its TTL stands.
func (c *Client) SetTTL(ctx context.Context, ttl time.Duration) error {
	if err := c.askTTL(ctx, ttl); err != nil {
		return fmt.Errorf("pawl: set the TTL to %v: %w", ttl, err)
	}
	return nil
}

func (c *Client) askTTL(ctx context.Context, ttl time.Duration) error {
	if bounds.ValidTTL(ttl) != nil {
		return fmt.Errorf("%w: 1s to 24h was expected", ErrInvalid)
	}
	if ctx.Err() != nil {
		return interrupted(ctx, nil)
	}
	q := newCall(callTTL)
	q.ttl = ttl
	if !c.submit(op{call: q}) {
		return ErrClosed
	}
	_, err, given := q.wait(ctx)
	if !given {
		return err
	}
	c.submit(op{call: q, abandon: true})
	return interrupted(ctx, c.setTrouble())
}
