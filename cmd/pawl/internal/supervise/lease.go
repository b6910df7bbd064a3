//go:build unix

package supervise

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// Lease is what a run must know of the lease that its command works under.
// It is used by one goroutine, apart from its channels.
type Lease interface {
	// Deadline is the instant of clock.Boottime at which the lease counts as lost
	// unless it is renewed before. To get it from the remaining time of a lease, read
	// the clock first and then add the remaining time: a pause between the two then
	// makes the deadline earlier. That of a lease that rides moves on with every look.
	Deadline() time.Duration
	// Renewed delivers after Deadline has moved; several moves may be one value.
	Renewed() <-chan struct{}
	// Lost is closed when the lease is known to be lost, or its holder has been
	// told to give it up. A deadline that passes needs no Lost.
	Lost() <-chan struct{}
	// Why says, once Lost is closed, what the lease's end is put down to, and
	// whether it is ours still: then its holder was asked to let go.
	Why() (cause string, ours bool)
	// Check asks the server; nil means that the lease was ours at some moment
	// after the call began, and Deadline has been moved accordingly. For a lease that
	// may ride nil may also mean that no server answers, and that it goes on without.
	Check(ctx context.Context) error
}

// Held is a lease as the SDK gives it (*pawl.Lease).
type Held interface {
	// Context ends when the lease does, or is to be given up.
	Context() context.Context
	// Remaining is the time until the local deadline; 0 when the lease has ended.
	Remaining() time.Duration
	Check(ctx context.Context) error
}

// Followed is the Lease of a Held.
type Followed struct {
	held    Held
	ttl     time.Duration
	ride    *ride // nil: the lease ends with its deadline
	renewed chan struct{}
	stop    func()

	mu    sync.Mutex
	known time.Duration // the last deadline that was told
}

// followShare is how many looks at a lease there are for each TTL: four for
// each renewal.
const followShare = 4 * renewalsPerTTL

// followSlack is by how much a deadline must move to count as moved: the clock
// that it comes from may be slewed against this one.
const followSlack = 5 * time.Millisecond

// Follow looks at held every TTL/24 for whether its deadline has moved. Stop
// ends that.
func Follow(held Held, ttl time.Duration) (*Followed, error) { return follow(held, ttl, nil) }

// FollowRider is Follow for a lease that may ride, under which a command has killAfter
// between the request to end and the kill.
func FollowRider(held Rider, ttl, killAfter time.Duration) (*Followed, error) {
	return follow(held, ttl, &ride{left: held.RideLeft, from: rideFrom(ttl, killAfter)})
}

func follow(held Held, ttl time.Duration, ride *ride) (*Followed, error) {
	timer, err := clock.NewBootTimer()
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	f := &Followed{
		held: held, ttl: ttl, ride: ride, renewed: make(chan struct{}, 1), known: clock.Boottime(),
		stop: sync.OnceFunc(func() { close(over) }),
	}
	go func() {
		defer timer.Stop()
		for known := f.Deadline(); ; {
			timer.Reset(ttl / followShare)
			select {
			case <-over:
				return
			case <-held.Context().Done():
				return
			case <-timer.C():
			}
			if now := f.Deadline(); (now - known).Abs() > followSlack {
				known = now
				select {
				case f.renewed <- struct{}{}:
				default:
				}
			}
		}
	}()
	return f, nil
}

// Deadline implements Lease. Once the lease has ended it stays at the last one:
// a command that must go before its time still has until then to end in order.
func (f *Followed) Deadline() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := clock.Boottime()
	left := f.held.Remaining()
	if f.ride != nil && left < f.ride.from && f.held.Context().Err() == nil {
		left = min(f.ride.left(), f.ttl)
	}
	if left > 0 {
		f.known = now + left
	}
	return f.known
}

// Renewed implements Lease.
func (f *Followed) Renewed() <-chan struct{} { return f.renewed }

// Lost implements Lease.
func (f *Followed) Lost() <-chan struct{} { return f.held.Context().Done() }

// Why implements Lease.
func (f *Followed) Why() (cause string, ours bool) {
	if why := context.Cause(f.held.Context()); why != nil {
		cause = why.Error()
	}
	if f.held.Remaining() > 0 {
		return strings.TrimPrefix(cause, "lease broken: "), true
	}
	return "the lease is " + strings.TrimPrefix(cause, "lease "), false
}

// Check implements Lease. For a lease that may ride it waits for a renewal's interval at
// most: the command stands still meanwhile.
func (f *Followed) Check(ctx context.Context) error {
	if f.ride == nil {
		return f.held.Check(ctx)
	}
	asking, cancel := context.WithTimeout(ctx, f.ttl/renewalsPerTTL)
	defer cancel()
	err := f.held.Check(asking)
	if err != nil && ctx.Err() == nil && f.held.Context().Err() == nil && f.ride.left() > 0 {
		return nil
	}
	return err
}

// Stop ends the following. Twice is fine.
func (f *Followed) Stop() { f.stop() }
