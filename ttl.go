package pawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// SetTTL gives this client's session, and so all its leases, another TTL from 1 s to 24
// h. Later sessions of the client have it as well. nil means that the server has
// confirmed it.
//
// A higher TTL counts when SetTTL returns nil, and not before. A lower one counts at
// once: the deadline of every lease is then at most that far away. The server keeps
// what it promised under the higher one: waiters may wait that long once more if this
// client dies soon after.
//
// If ctx ends first (its error, joined with ErrUnavailable when no server could be
// reached), or the server refuses this client (ErrDenied, ErrStoreRolledBack), the
// client goes on asking for the TTL; [Lease.Remaining] shows what counts. After other
// errors the TTL is unchanged: ErrInvalid when it is out of bounds or the server cannot
// change TTLs, ErrClosed. ErrConflict says that a later call has set another TTL.
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
