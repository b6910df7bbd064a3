package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Acquire asks for a lease. The request id makes it safe to ask again after a
// lost answer. The error is ErrNoRider beside a lease that is to be released.
func (c *Client) Acquire(ctx context.Context, q *linkpb.AcquireRequest) (rest.LeaseBody, error) {
	var a *linkpb.AcquireResponse
	err := c.Call(ctx, time.Duration(q.WaitNano), func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
		a, err = l.Acquire(ctx, q)
		return err
	})
	if err != nil {
		return rest.LeaseBody{}, HeldError(q, err)
	}
	lease := rest.LeaseBody{
		Lease: a.GetLease(), Token: rest.Token(a.GetToken()), Cell: a.GetCell(), Session: a.GetSession(),
		TTL: rest.Duration(a.GetTtlNano()), Waited: rest.Duration(a.GetWaitedNano()),
	}
	given := []rest.NameBody{{Name: a.GetName(), Fence: rest.Token(a.GetFence()), Slot: a.GetSlot()}}
	if len(a.GetFences()) > 0 {
		given = nil
	}
	for _, f := range a.GetFences() {
		given = append(given, rest.NameBody{Name: f.GetName(), Fence: rest.Token(f.GetFence()), Slot: f.GetSlot()})
	}
	lease.Give(given, false)
	if a.GetRideThroughNano() < q.GetRideThroughNano() {
		return lease, ErrNoRider
	}
	return lease, nil
}

// ErrNoRider: the lease was granted, and must not ride.
var ErrNoRider = errors.New("the server is of a version that knows of no leases that ride: it would let others in who do not claim")

// HeldError adds to a refusal who holds the name, and what a break needs.
func HeldError(q *linkpb.AcquireRequest, err error) error {
	r := exit.RefusalOf(err)
	if r.GetReason() != linkpb.Reason_REASON_HELD || r.GetHolder() == nil {
		return err
	}
	h := output.Holder(rest.HolderOf(r.GetHolder()))
	// The message may end with what to do: the name is claim-only, or the holder is the
	// session itself.
	message := exit.InFlags(r.GetMessage())
	i := strings.Index(message, locktable.AlsoClosed)
	if i < 0 {
		i = strings.LastIndex(message, "; the holder is a lease of this session")
	}
	if i >= 0 {
		message, h = message[:i], h+message[i:]
	}
	switch {
	case len(q.GetNames()) > 0:
		return exit.Failed(exit.CodeNotAcquired, "%s: one of the names is %s", message, h)
	case q.GetSlots() > 0:
		return exit.Failed(exit.CodeNotAcquired, "no slot of %s is free; the first is %s", output.Text(q.GetName()), h)
	default:
		return exit.Failed(exit.CodeNotAcquired, "%s is %s", output.Text(q.GetName()), h)
	}
}

// Release ends a lease, or a session.
func (c *Client) Release(ctx context.Context, id string, asSession bool) error {
	return c.Keep(ctx, func(ctx context.Context, l linkpb.LinkClient, again bool) (err error) {
		if asSession {
			_, err = l.CloseSession(ctx, &linkpb.CloseSessionRequest{Session: id})
		} else {
			_, err = l.Release(ctx, &linkpb.ReleaseRequest{Lease: id})
		}
		if again && exit.RefusalOf(err).GetReason() == linkpb.Reason_REASON_GONE {
			return nil // an earlier try did it, and its answer was lost
		}
		return err
	})
}
