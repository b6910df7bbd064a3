package cell

import (
	"context"
	"iter"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// Core is one tenure's state and its decisions, without the loop that waits:
// its driver passes the time and the commands in, and carries out what
// Take returns. The simulator drives it in a time of its own.
type Core struct{ core *core }

// Founding is what a new cell is made of.
type Founding struct {
	// Cell is the id, Secret the 32 bytes that only servers of the cell know.
	Cell   string
	Secret []byte
	Limits bounds.Limits
}

// FoundCore begins a new cell; opening is its first batch, for store.Claim.
func FoundCore(f Founding, epoch uint64, nonce store.Nonce, wall time.Time, floor guard.Token) (c Core, opening []byte) {
	k := newCore(locktable.New(f.Limits), epoch, nonce)
	k.table.Found(f.Cell, f.Secret, &k.decided)
	return Core{k}, k.opening(wall, floor)
}

// ReplayCore reads the log of a tenure that was just claimed. The caller lands
// opening as batch number.
func ReplayCore(ctx context.Context, t store.Tenure, limits bounds.Limits, wall time.Time, floor guard.Token) (c Core, number uint64, opening []byte, err error) {
	r, err := replay(ctx, t, limits)
	if err != nil {
		return Core{}, 0, nil, err
	}
	k := newCore(r.table, t.Epoch(), t.Nonce())
	k.last, k.durable, k.sum = r.head, r.head, r.sum
	opening = k.opening(wall, floor)
	return Core{k}, k.last, opening, nil
}

// Actions are what a driver carries out.
type Actions struct {
	Appends []Batch
	// Confirm: begin one.
	Confirm bool
	// Replies have become final, in order.
	Replies  []locktable.Reply
	Snapshot *Snapshot
}

// Batch is to be appended; its driver calls Landed.
type Batch struct {
	Number uint64
	Raw    []byte
	// Events is how many it holds.
	Events int
}

// Snapshot is the frozen table after batch UpTo.
type Snapshot struct {
	UpTo   uint64
	Chunks iter.Seq[[]byte]
}

// Begun says that the opening batch has landed. The tenure's time counts from
// now on.
func (c Core) Begun(now clock.Reading) { c.core.begun(now) }

// Bound lowers the bounds of turns and batches, so that a driver reaches them with
// little. Call it after Begun: the opening batch is one.
func (c Core) Bound(b TurnBounds) { c.core.bounds = b }

// Step decides what was taken from the intake: urgent commands are all there
// were when the turn began when complete is set.
func (c Core) Step(r clock.Reading, wall time.Time, urgent, acquires []locktable.Command, complete bool) {
	c.core.step(r, wall, urgent, acquires, complete)
}

// Landed notes that a batch has landed.
func (c Core) Landed(number uint64) { c.core.landed(number) }

// Answered notes the end of the Confirm that was under way.
func (c Core) Answered(ok bool) { c.core.answered(ok) }

// Ask begins a Confirm when something waits for one.
func (c Core) Ask(r clock.Reading) { c.core.ask(r) }

// Take returns what is to be done and forgets it.
func (c Core) Take() Actions {
	a := c.core.take()
	out := Actions{Confirm: a.confirm}
	for _, b := range a.appends {
		out.Appends = append(out.Appends, Batch{b.number, b.raw, b.events})
	}
	for i := range a.deliver {
		out.Replies = append(out.Replies, a.deliver[i].replies...)
	}
	if a.snapshot != nil {
		out.Snapshot = &Snapshot{a.snapshot.upTo, a.snapshot.chunks()}
	}
	return out
}

// Next says when the core must be stepped, or asked for a Confirm, although
// nothing happens; 0: never.
func (c Core) Next() time.Duration {
	switch {
	case c.core.more:
		// Not at once: a grant may be waiting for the counter's line, which moves
		// with the clock.
		return time.Microsecond
	case c.core.asked == 0 && c.core.waits():
		return confirmGap
	case c.core.table.Counts().Sessions > 0:
		return tick
	}
	return 0
}

// More reports whether the next event of any kind must cause a Step.
func (c Core) More() bool { return c.core.more }

// Open is how many decided events are in no batch yet.
func (c Core) Open() int { return len(c.core.open) }

// Tight has acquires refused, or no longer, because the store is nearly full.
func (c Core) Tight(tight bool) { c.core.tight = tight }

// Full says that the store refuses a batch for want of room. It is over with the
// next one that lands.
func (c Core) Full() { c.core.full() }

// Backlogged: reports whether acquires must stay in the intake for now.
func (c Core) Backlogged() bool { return c.core.backlogged() }

// WantSnapshot has the next turns freeze the table.
func (c Core) WantSnapshot() { c.core.wantSnapshot = true }

// Ticket writes the place in a queue of one of a session's requests, for its client to
// show; Place reads it, and is zero when it is not one that the cell wrote for this
// request.
func (c Core) Ticket(session locktable.ID, number uint64, p locktable.Place) []byte {
	return sealTicket(c.core.table.Secret(), session, number, p)
}

// Place reads what Ticket wrote.
func (c Core) Place(session locktable.ID, number uint64, ticket []byte) locktable.Place {
	return openTicket(c.core.table.Secret(), session, number, ticket)
}

// Table is the lock table as decided, durable or not.
func (c Core) Table() *locktable.Table { return c.core.table }

// Now is the time as the table may know it.
func (c Core) Now(r clock.Reading, wall time.Time) locktable.Now { return c.core.now(r, wall) }

// Idle reports whether everything decided is durable and answered.
func (c Core) Idle() bool {
	return len(c.core.open) == 0 && len(c.core.inFlight) == 0 && len(c.core.groups) == 0 && !c.core.more
}
