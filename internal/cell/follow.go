package cell

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// Following says how far a standby has read the log of the active server.
type Following struct {
	// Batch is the last one it has; 0: none yet.
	Batch uint64
	// complete is when the last read began that came to the end of the log.
	complete clock.Reading
}

// Following reports how far this standby has read the log, and how long ago the last
// read began that came to its end: a take-over reads what was written since. It is
// false for a server that follows none, or has not come to the end yet.
func (c *Cell) Following() (f Following, behind time.Duration, ok bool) {
	p := c.following.Load()
	if p == nil || p.complete == (clock.Reading{}) {
		return Following{}, 0, false
	}
	return *p, c.o.Clock.Now().Longer(p.complete), true
}

// follow reads the log on until ctx ends, so that a take-over begins with what is new
// alone. A standby polls: it reads each batch once, and beside that one empty page each
// FollowGap, a third of what its wait for its turn asks of the store. A watch would
// save that page, and cost the store a stream, and us what it does when the store has
// compacted what the watch has not sent yet.
func (c *Cell) follow(ctx context.Context, f *step.Follower) {
	defer c.following.Store(nil)
	read := func(from store.Position, chunk, batch func(uint64, []byte) error) error {
		return c.o.Store.Follow(ctx, from, chunk, batch)
	}
	timer := c.o.Clock.NewTimer()
	defer timer.Stop()
	told := ""
	for {
		before, began := f.Position(), c.o.Clock.Now()
		complete, err := f.Read(c.o.Clock, read)
		now := Following{Batch: f.Position().Number}
		if p := c.following.Load(); p != nil {
			now.complete = p.complete
		}
		if complete {
			now.complete, told = began, ""
		}
		c.following.Store(&now)
		if err != nil && ctx.Err() == nil {
			told = c.noteUnfollowed(before, told, err)
		}
		timer.Reset(step.FollowGap(c.o.ActiveTTL))
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
	}
}

// noteUnfollowed tells an operator why a standby does not follow, each time that this
// is another reason than told.
func (c *Cell) noteUnfollowed(at store.Position, told string, err error) string {
	why, log := "read", c.o.Logger.Debug
	switch {
	case errors.Is(err, store.ErrRolledBack):
		why, log = "lost", c.o.Logger.Error
		c.rolledBack.Store(true)
	case errors.Is(err, store.ErrMoved):
		why, log = "moved", c.o.Logger.Warn
	case errors.Is(err, store.ErrDamaged):
		why, log = "damaged", c.o.Logger.Error
	}
	if why != told {
		log(map[string]string{
			"read":    "reading the log of the active server failed, trying again",
			"lost":    "store_rolled_back: the log of the active server is without what this standby has read; it is read anew",
			"moved":   "this standby has read the log too slowly, and begins anew",
			"damaged": "the log of the active server is damaged; this standby could not take over",
		}[why], "batch", at.Number, "error", err)
	}
	return why
}

// resume reads what the follower has not read. After ErrMoved the whole is to be read.
func (c *Cell) resume(ctx context.Context, t store.Tenure, f *step.Follower) (*step.Replayed, error) {
	from := f.Position()
	if from.Number == 0 {
		return nil, store.ErrMoved
	}
	read := func(from store.Position, batch func(uint64, []byte) error) (uint64, store.Published, error) {
		return t.Resume(ctx, from, batch)
	}
	for {
		r, err := f.Resume(read, t.Epoch())
		switch {
		case err == nil:
			c.o.Logger.Info("going on from where the standby had read the log to", "batch", from.Number)
			return r, nil
		case errors.Is(err, store.ErrRolledBack) && errors.Is(err, store.ErrMoved):
			c.noteUnfollowed(from, "", err)
			return nil, err
		case errors.Is(err, store.ErrMoved):
			c.o.Logger.Warn("the standby's part of the log is of no use, and the whole is read", "batch", from.Number, "error", err)
			return nil, err
		case final(err) || !pause(ctx, c.o.Clock):
			return nil, err
		}
		c.o.Logger.Warn("reading the log failed, trying again", "error", err)
	}
}
