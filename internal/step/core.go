package step

import (
	"iter"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// Receiver takes answers as they become final. Receive must not block: the cell's only
// goroutine calls it. Number is the request's number on a stream; it is 0 elsewhere,
// and for answers to no request.
type Receiver interface {
	Receive(number uint64, a locktable.Answer)
}

// Founding is what a new cell is made of.
type Founding struct {
	// Cell is the id, Secret the 32 bytes that only servers of the cell know.
	Cell   string
	Secret []byte
	Limits bounds.Limits
}

// Found begins a new cell; opening is its first batch, for store.Claim.
func Found(f Founding, epoch uint64, nonce store.Nonce, wall time.Time, floor guard.Token) (c *Core, opening []byte) {
	c = newCore(locktable.New(f.Limits), epoch, nonce)
	c.table.Found(f.Cell, f.Secret, &c.decided)
	return c, c.opening(wall, floor)
}

// Core goes on with a log that was read, in the tenure of epoch and nonce. The caller
// lands opening as batch number.
func (r *Replayed) Core(epoch uint64, nonce store.Nonce, wall time.Time, floor guard.Token) (c *Core, number uint64, opening []byte) {
	c = newCore(r.table, epoch, nonce)
	c.last, c.durable, c.sum = r.head, r.head, r.sum
	opening = c.opening(wall, floor)
	return c, c.last, opening
}

// Actions are what a driver carries out.
type Actions struct {
	Appends []Batch
	// Confirm: begin one.
	Confirm bool
	// Groups are of answers that have become final, in order.
	Groups   []Group
	Snapshot *Snapshot
}

// Replies are the answers of all groups.
func (a *Actions) Replies() iter.Seq[locktable.Reply] {
	return func(yield func(locktable.Reply) bool) {
		for i := range a.Groups {
			for _, r := range a.Groups[i].Replies {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Batch is to be appended; its driver calls Landed.
type Batch struct {
	Number uint64
	Raw    []byte
	// Events is how many it holds.
	Events int
}

// Next says when the core must be stepped, or asked for a Confirm, although
// nothing happens; 0: never.
func (c *Core) Next() time.Duration {
	switch {
	case c.more:
		// Not at once: a grant may be waiting for the counter's line, which moves
		// with the clock.
		return time.Microsecond
	case c.asked == 0 && c.waits():
		return confirmGap
	case c.table.Timed():
		return Tick
	}
	return 0
}

// Limit lowers the bounds of turns and batches, so that a driver reaches them with
// little. Call it after Begun: the opening batch is one.
func (c *Core) Limit(b TurnBounds) { c.bounds = b }

// More reports whether the next event of any kind must cause a Step.
func (c *Core) More() bool { return c.more }

// Open is how many decided events are in no batch yet.
func (c *Core) Open() int { return len(c.open) }

// InFlight is how many batches are on their way.
func (c *Core) InFlight() int { return len(c.inFlight) }

// Epoch is that of the tenure.
func (c *Core) Epoch() uint64 { return c.epoch }

// Durable is the number of the last batch before the first that has not landed.
func (c *Core) Durable() uint64 { return c.durable }

// SetTight has acquires refused, or no longer, because the store is nearly full. It
// reports whether that is news.
func (c *Core) SetTight(tight bool) (changed bool) {
	changed, c.tight = tight != c.tight, tight
	return changed
}

// WantSnapshot has the next turns freeze the table.
func (c *Core) WantSnapshot() { c.wantSnapshot = true }

// Ticket writes the place in a queue of one of a session's requests, for its client to
// show; Place reads it, and is zero when it is not one that the cell wrote for this
// request.
func (c *Core) Ticket(session locktable.ID, number uint64, p locktable.Place) []byte {
	return Ticket(c.table.Secret(), session, number, p)
}

// Place reads what Ticket wrote.
func (c *Core) Place(session locktable.ID, number uint64, ticket []byte) locktable.Place {
	return ReadTicket(c.table.Secret(), session, number, ticket)
}

// Table is the lock table as decided, durable or not.
func (c *Core) Table() *locktable.Table { return c.table }

// Idle reports whether everything decided is durable and answered.
func (c *Core) Idle() bool {
	return len(c.open) == 0 && len(c.inFlight) == 0 && len(c.groups) == 0 && !c.more
}

// Decided is the turn of the last Step, and the answers that it decided.
func (c *Core) Decided() (turn uint64, replies []locktable.Reply) {
	if n := len(c.groups); n > 0 && c.groups[n-1].turn == c.turn {
		replies = c.groups[n-1].Replies
	}
	return c.turn, replies
}

// BatchOf is the number of the batch that the answers of a turn wait for. It is 0 while
// they are in no batch, and once they have left.
func (c *Core) BatchOf(turn uint64) uint64 {
	for i := range c.groups {
		if c.groups[i].turn == turn {
			return c.groups[i].need
		}
	}
	return 0
}
