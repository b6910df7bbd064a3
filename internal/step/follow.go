package step

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// Follower keeps a lock table up to date with a log that another server writes, so that
// its own tenure begins with the few batches that it has not read yet. It holds one
// table and nothing beside, whatever becomes of the log.
//
// Its driver calls Read every FollowGap while its server stands by, and Resume when it
// has a tenure. A driver that stops reading in between loses nothing.
type Follower struct {
	limits bounds.Limits
	// log is nil while nothing was read.
	log *Replayed
	// bytes of the batches read, of which there were so many.
	bytes   int64
	batches int
	// last is when Read was called last, age the time that these calls span.
	last clock.Reading
	age  time.Duration
	// wait is how long the whole log is not read again for, after it was in vain; took
	// is how long that took last.
	wait, took time.Duration
	// lost is the counter of a log that the store has lost, of a cell of this id.
	lost   guard.Token
	lostOf string
}

// wholeShare is how long a follower that lost its place waits before it reads the whole
// again, in times of what that took: a standby that is too slow must not wear out the
// store with snapshots that it never gets to the end of.
const wholeShare = 9

// ageMax bounds what one Read adds to the age: a standby that was stopped has read nothing.
const ageMax = time.Second

// NewFollower returns one that has read nothing.
func NewFollower(limits bounds.Limits) *Follower { return &Follower{limits: limits} }

// Position is how far the log was read.
func (f *Follower) Position() store.Position {
	if f.log == nil {
		return store.Position{}
	}
	return store.Position{Number: f.log.head, Sum: f.log.sum}
}

// Read has read pass on what the log has behind the position, as store.Store's Follow
// does. clk is asked before and after. It reports whether the log was read to its end;
// an error is read's. After ErrMoved and ErrDamaged nothing is left of what was read.
func (f *Follower) Read(clk clock.Clock, read func(from store.Position, chunk, batch func(uint64, []byte) error) error) (complete bool, err error) {
	began := clk.Now()
	passed := time.Duration(0)
	if f.last != (clock.Reading{}) {
		passed = min(began.Shorter(f.last), ageMax)
	}
	f.last = began
	f.age += passed
	if f.wait > 0 && f.log == nil {
		f.wait -= passed
		return false, nil
	}
	whole := f.log == nil
	if whole {
		f.log, f.bytes, f.batches = newReplayed(f.limits), 0, 0
	}
	err = read(f.Position(), f.chunk, f.batch)
	if whole {
		f.took = clk.Now().Shorter(began)
	}
	switch {
	case f.useless(err):
		f.drop()
		return false, err
	case !f.log.whole, f.log.head == 0:
		// Without a cell there is nothing to follow.
		f.drop()
		return false, err
	}
	f.log.table.Followed(f.age)
	return err == nil, err
}

// useless reports whether an error leaves nothing of the table to go on with. A record
// that does not fit is ErrDamaged.
func (f *Follower) useless(err error) bool {
	if errors.Is(err, store.ErrMoved) && errors.Is(err, store.ErrRolledBack) {
		f.lost, f.lostOf = f.log.table.Counts().Counter, f.log.table.Cell()
	}
	return errors.Is(err, store.ErrMoved) || errors.Is(err, store.ErrDamaged)
}

// drop forgets the table, and has the whole log read again after a while.
func (f *Follower) drop() {
	f.log, f.wait = nil, wholeShare*f.took
}

func (f *Follower) chunk(n uint64, raw []byte) error { return f.log.chunk(n, raw) }

func (f *Follower) batch(n uint64, raw []byte) error {
	f.bytes += int64(len(raw))
	f.batches++
	return f.log.batch(n, raw)
}

// Floor is the counter of a log of the same cell that this follower has read and the
// store has lost since, 0 where it knows of none: tokens of a tenure over r rise above it.
func (f *Follower) Floor(r *Replayed) guard.Token {
	if f.lostOf != r.table.Cell() {
		return 0
	}
	return f.lost
}

// FollowGap is the time between two reads of a standby.
func FollowGap(activeTTL time.Duration) time.Duration { return min(activeTTL/10, time.Second) }

// Resume ends what the follower does: it has resume pass on the rest of the log, in a
// tenure of epoch. After ErrMoved the follower has nothing any more, and the whole log
// is to be replayed; after another error that is not final Resume may be called again.
func (f *Follower) Resume(resume func(from store.Position, batch func(uint64, []byte) error) (uint64, store.Published, error), epoch uint64) (*Replayed, error) {
	if f.log == nil {
		return nil, fmt.Errorf("resume: %w: nothing was read", store.ErrMoved)
	}
	head, snap, err := resume(f.Position(), f.batch)
	if err == nil {
		err = f.log.check(head, epoch)
	}
	switch {
	case f.useless(err):
		f.drop()
		if !errors.Is(err, store.ErrMoved) {
			err = fmt.Errorf("%w: %w", store.ErrMoved, err)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	r := f.log
	f.log = nil
	r.table.FinishReplay()
	r.table.Lead(f.age)
	r.Growth = f.growth(head, snap)
	return r, nil
}

// growth is that of the log since the present snapshot, whose size and distance are
// known from counts alone: the follower may not have read that one.
func (f *Follower) growth(head uint64, snap store.Published) Growth {
	g := Growth{Batches: int(head - min(head, snap.Batch)), Snapshot: int64(snap.Chunks) * chunkBytes}
	if f.batches > 0 {
		g.Bytes = f.bytes / int64(f.batches) * int64(g.Batches)
	}
	return g
}
