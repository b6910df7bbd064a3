package sim

import (
	"errors"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// happened is one round of the loop that cell's run.go has: the core decides
// when step is set or it has more to do, and what it wants done is done.
func (s *server) happened(step bool) {
	if !s.serving {
		return
	}
	w := s.world
	now := s.clock.read(w.now)
	if step || s.core.More() {
		var acquires []locktable.Command
		if !s.core.Backlogged() {
			acquires, s.acquires = s.acquires, nil
		}
		urgent := s.urgent
		s.urgent = nil
		s.core.Step(now, s.clock.wall(w.now), urgent, acquires, true)
		w.referee.hangsUp(urgent)
		w.referee.waiters.asked(acquires)
	} else {
		s.core.Ask(now)
	}
	s.act()
	if len(s.acquires) > 0 && !s.core.Backlogged() {
		s.add(nil, nil)
	}
	s.arm()
}

// arm sets the time of the next round that nothing else brings.
func (s *server) arm() {
	s.wakes++
	mine := s.wakes
	if d := s.core.Next(); d > 0 {
		s.world.after(&s.process, d, func() {
			if s.wakes == mine {
				s.happened(true)
			}
		})
	}
}

// act carries out what the core wants done.
func (s *server) act() {
	a := s.core.Take()
	open := s.core.Open()
	decided := open - s.open
	for _, b := range a.Appends {
		decided += b.Events
	}
	s.open = open
	s.world.referee.times.decides(s, decided)
	for _, b := range a.Appends {
		s.world.referee.times.seals(s, b)
		s.world.spawn(&s.process, func() { s.append(b) })
	}
	if a.Confirm {
		s.world.spawn(&s.process, s.confirm)
	}
	if a.Snapshot != nil {
		s.world.spawn(&s.process, func() { s.snapshot(a.Snapshot) })
	}
	for r := range a.Replies() {
		s.deliver(&r)
	}
	s.flush()
}

// flush sends what streams have been answered.
func (s *server) flush() {
	all := s.unsent
	s.unsent = nil
	for _, x := range all {
		x.flush()
	}
}

// append lands a batch, and tries again while the outcome is unknown.
func (s *server) append(b step.Batch) {
	t := s.tenure
	for t != nil {
		err := t.Append(s.ctx, b.Number, b.Raw)
		switch {
		case err == nil:
			s.landed(b)
			return
		case final(err):
			s.quit(err)
			return
		case errors.Is(err, store.ErrFull):
			s.full()
		}
		if !s.world.sleep(retryGap) {
			return
		}
	}
}

// full takes in that the store refuses a batch for want of room.
func (s *server) full() {
	if s.serving && s.fullSince == 0 {
		s.fullSince = s.world.now
		s.core.Full()
		s.happened(false)
	}
}

func (s *server) landed(b step.Batch) {
	if !s.serving {
		return
	}
	if s.batches++; s.batches >= s.world.plan.SnapshotEvery && !s.snapping {
		s.batches, s.snapping = 0, true
		s.core.WantSnapshot()
		s.add(nil, nil)
	}
	if s.fullSince != 0 {
		s.fullSince, s.fullUntil = 0, s.world.now
	}
	s.world.referee.acknowledged(s, b)
	s.core.Landed(b.Number)
	s.happened(false)
}

func (s *server) confirm() {
	err := s.tenure.Confirm(s.ctx)
	if final(err) {
		s.quit(err)
		return
	}
	if s.serving {
		s.core.Answered(err == nil)
		s.happened(false)
	}
}

func (s *server) snapshot(x *step.Snapshot) {
	err := s.tenure.Snapshot(s.ctx, x.UpTo, x.Chunks())
	s.snapping = false
	if final(err) {
		s.quit(err)
	}
}

// receiver takes an answer that the server sends.
type receiver interface {
	receive(number uint64, a locktable.Answer)
}

func (s *server) deliver(r *locktable.Reply) {
	s.world.referee.serverAnswered(s, r)
	r.To.(receiver).receive(r.Number, r.Answer)
}
