package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// drawFollows has standbys follow the log in half of the worlds with several servers.
// In the others each take-over replays the whole.
func drawFollows(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeFollows))
	p.Follows = p.Servers > 1 && r.IntN(2) == 0
	p.SlowFollows = p.Follows && r.IntN(2) == 0
}

// slowGap is the time between two reads of a standby that is too slow.
const slowGap = 4 * time.Second

// following is a standby that reads the log while it waits for its turn.
type following struct {
	*step.Follower
	// reading: a read is under way. over: the standby has its turn.
	reading, over bool
}

// follow begins to read the log.
func (s *server) follow() *following {
	f := &following{Follower: step.NewFollower(bounds.DefaultLimits)}
	w := s.world
	if !w.plan.Follows {
		return f
	}
	read := func(from store.Position, chunk, batch func(uint64, []byte) error) error {
		return s.store.Follow(s.ctx, from, chunk, batch)
	}
	gap := step.FollowGap(w.plan.activeTTL(s.id))
	if w.plan.SlowFollows {
		gap = slowGap
	}
	w.spawn(&s.process, func() {
		for !f.over {
			f.reading = true
			_, err := f.Read(processClock{w, &s.process}, read)
			f.reading = false
			if errors.Is(err, store.ErrMoved) {
				w.note(s.name, "reads the log anew: %v", err)
			}
			if !w.sleep(gap) {
				return
			}
		}
	})
	return f
}

// stop waits for the end of the read that is under way; false: the process is dead.
func (f *following) stop(w *World) bool {
	f.over = true
	for f.reading {
		if !w.sleep(time.Millisecond) {
			return false
		}
	}
	return true
}

// read reads the log in a tenure, or what the standby has not read of it yet.
func (s *server) read(t store.Tenure, f *following) (*step.Replayed, error) {
	if f.Position().Number > 0 {
		log, err := f.Resume(func(from store.Position, batch func(uint64, []byte) error) (uint64, store.Published, error) {
			return t.Resume(s.ctx, from, batch)
		}, t.Epoch())
		if !errors.Is(err, store.ErrMoved) {
			if err == nil {
				s.world.referee.tally.Resumed++
			}
			return log, err
		}
		s.world.referee.tally.Moved++
		s.world.note(s.name, "replays the whole log: %v", err)
	}
	return step.Replay(func(chunk, batch func(uint64, []byte) error) (uint64, error) {
		return t.Replay(s.ctx, chunk, batch)
	}, t.Epoch(), bounds.DefaultLimits)
}
