package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// retryGap is the pause before a write of unknown outcome is sent again.
const retryGap = 20 * time.Millisecond

// server is one machine that runs pawl serve: a process that claims tenures and
// serves them, over and over.
type server struct {
	process
	world *World
	id    int
	node  store.Node
	// cut: its way to the store is; isolated: its clients' way to it.
	cut, isolated bool

	// What a process has; gone when it dies.
	ctx     context.Context
	kill    context.CancelFunc
	store   *kvlog.Store
	tenure  store.Tenure
	core    *step.Core
	served  *servedTenure
	serving bool

	urgent, acquires []locktable.Command
	ready            bool
	wakes            uint64
	streams          []*stream
	// waitingStreams holds streams whose greeting is kept until the server serves, unsent those
	// that have not been told all.
	waitingStreams, unsent []*stream
	calls                  []*call
	batches                int
	snapping               bool
	// tight: the store has little room, as far as the server knows, since.
	tight      bool
	tightSince time.Duration
	// fullSince is when the store first refused a batch since one landed, 0: it has
	// not; fullUntil when that was over last.
	fullSince, fullUntil time.Duration
	// open is how much of what is decided is in no batch, decided when that was.
	open    int
	decided []moment
}

func newServer(w *World, id int) *server {
	r := w.random(purposeServer + uint64(id))
	s := &server{world: w, id: id, process: process{name: fmt.Sprintf("server%d", id+1), rng: r}}
	s.clock = newClock(w, id)
	copy(s.node.ID[:], s.name)
	s.node.Link = s.name
	return s
}

// start begins the process after a while.
func (s *server) start(after time.Duration) {
	w := s.world
	w.after(&s.process, after, func() {
		s.ctx, s.kill = context.WithCancel(context.Background())
		if s.store == nil {
			s.store = kvlog.New(cable{server: s}, kvlog.Options{
				Clock: s.storeClock(), ActiveTTL: w.plan.activeTTL(s.id),
				Beside: func(f func()) { w.spawn(&s.process, f) },
			})
		}
		w.spawn(&s.process, s.claim)
	})
}

// die ends the process where it stands.
func (s *server) die() {
	if s.store != nil {
		s.store.Close()
	}
	s.endTenure()
	s.store = nil
}

// endTenure ends a tenure, or the wait for one, and all that goes with it. The
// process lives on with its way to the store.
func (s *server) endTenure() {
	s.world.referee.times.stops(s)
	s.serving = false
	if s.kill != nil {
		s.kill()
		s.process.stop()
	}
	s.life++
	s.urgent, s.acquires, s.ready, s.snapping = nil, nil, false, false
	s.waitingStreams, s.unsent = nil, nil
	s.tenure, s.kill, s.stalls = nil, nil, nil
}

// crash kills the process, which is started again after a while. Its clients
// hear of it when a machine answers for it again.
func (s *server) crash(down time.Duration) {
	s.world.note(s.name, "crashes")
	s.die()
	s.dropConnections(down)
	s.frozen = s.world.now
	s.start(down)
}

// dropConnections breaks every connection; the clients notice after a while.
func (s *server) dropConnections(after time.Duration) {
	streams, calls := s.streams, s.calls
	s.streams, s.calls = nil, nil
	for _, x := range streams {
		x.reset(after)
	}
	for _, x := range calls {
		x.lose()
	}
}

// claim claims one tenure and begins to serve it. It runs in a coroutine.
func (s *server) claim() {
	w := s.world
	var nonce store.Nonce
	copy(nonce[:], fmt.Appendf(nil, "%016d", w.disk.rng.Uint64()%1e16))
	var core *step.Core
	var opening []byte
	first := func(epoch uint64, nonce store.Nonce) []byte {
		founding := step.Founding{Cell: cellID, Secret: make([]byte, 32), Limits: bounds.DefaultLimits}
		core, opening = step.Found(founding, epoch, nonce, s.clock.wall(w.now), 0)
		return opening
	}
	follower := s.follow()
	t, err := s.store.Claim(s.ctx, s.node, nonce, first)
	if !follower.stop(w) {
		return
	}
	if err != nil {
		s.quit(err)
		return
	}
	w.note(s.name, "claims epoch %d", t.Epoch())
	if !t.Opened() {
		if core, opening, err = s.takeOver(t, follower); err != nil {
			s.quit(err)
			return
		}
	}
	core.Begun(s.clock.read(w.now))
	if b := w.plan.Bounds; b != (step.TurnBounds{}) {
		core.Limit(b)
	}
	s.tenure, s.core, s.serving, s.batches = t, core, true, 0
	s.open, s.decided, s.tight, s.fullSince = 0, nil, false, 0
	w.note(s.name, "serves epoch %d", t.Epoch())
	w.referee.serves(s, opening)
	s.checkUsage()
	s.happened(true)
	s.letIn()
}

// letIn greets the clients that were kept waiting.
func (s *server) letIn() {
	all := s.waitingStreams
	s.waitingStreams = nil
	for _, x := range all {
		if x.held {
			x.arrive()
		}
	}
}

const cellID = "sim-0123456789abcdef"

// takeOver reads the log, or what the follower has not read of it, and lands the opening batch behind its head.
func (s *server) takeOver(t store.Tenure, f *following) (core *step.Core, opening []byte, err error) {
	w := s.world
	for {
		var log *step.Replayed
		log, err = s.read(t, f)
		var number uint64
		if err == nil {
			core, number, opening = log.Core(t.Epoch(), t.Nonce(), s.clock.wall(w.now), f.Floor(log))
		}
		for err == nil {
			if err = t.Open(s.ctx, number, opening); err == nil {
				return core, opening, nil
			}
			if !final(err) && w.sleep(retryGap) {
				err = nil
			}
		}
		if final(err) || !w.sleep(retryGap) {
			return nil, nil, err
		}
	}
}

func final(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrRolledBack)
}

// quit ends a tenure, or the wait for one. After ErrFenced the process waits for its
// next turn; after any other error it ends and is started again. quit may be called in
// a coroutine, so the rest happens after that.
func (s *server) quit(why error) {
	w := s.world
	if s.ctx == nil || s.ctx.Err() != nil {
		return
	}
	s.finish()
	w.note(s.name, "its tenure is over: %v", why)
	w.referee.quit(s, why)
	w.after(&s.process, 0, func() {
		if errors.Is(why, store.ErrFenced) {
			s.endTenure()
			s.start(0)
			return
		}
		s.die()
		s.start(time.Second)
	})
}

// finish closes the doors and tells everybody whose answer will not come.
func (s *server) finish() {
	if !s.serving {
		return
	}
	s.world.referee.times.stops(s)
	s.serving = false
	s.urgent, s.acquires = nil, nil
	streams, calls := s.streams, s.calls
	s.streams, s.calls = nil, nil
	for _, x := range streams {
		x.receive(0, locktable.Closed{Reason: locktable.Unavailable})
	}
	for _, x := range calls {
		x.receive(0, locktable.Refused{Reason: locktable.Unavailable})
	}
	s.flush()
}

// resign is a clean stop: the tenure is given to nobody, and the process comes
// back later.
func (s *server) resign(down time.Duration) {
	w := s.world
	if !s.serving {
		return
	}
	t := s.tenure
	s.finish()
	w.note(s.name, "resigns")
	w.spawn(&s.process, func() {
		_ = t.Resign(s.ctx)
		w.after(&s.process, 0, func() { s.crash(down) })
	})
}

// add takes in commands; the server turns soon.
func (s *server) add(urgent, acquires []locktable.Command) {
	s.urgent = append(s.urgent, urgent...)
	s.acquires = append(s.acquires, acquires...)
	if !s.ready {
		s.ready = true
		s.world.after(&s.process, between(s.rng, 0, 500*time.Microsecond), func() {
			s.ready = false
			s.happened(true)
		})
	}
}
