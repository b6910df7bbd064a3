package small

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// phase is how far a server is with its tenure.
type phase int

const (
	idle phase = iota
	claimed
	replayed
	serving
)

// server is a process that takes tenures over and serves them.
type server struct {
	world *World
	id    int
	phase phase

	wire   *wire
	tenure store.Tenure
	core   *step.Core
	epoch  uint64
	// turns counts the core's steps.
	turns uint64
	// follower reads the log while this server stands by; nil: it has read nothing.
	follower *step.Follower
	// opening is the batch that opens the tenure, flying those that have not
	// been answered.
	opening flight
	flying  []flight
	// asked: a Confirm is under way, begun in turn askedIn; read: the store has
	// answered it, and the answer is under way.
	asked, read bool
	askedIn     uint64
	// storeFull: the store has refused a batch since one landed.
	storeFull bool
	// asks counts the Confirms of this tick, to keep them apart in time.
	asks int
}

// flight is a batch on its way.
type flight struct {
	number, turn uint64
	events       []byte
	batch        step.Batch
}

func (s *server) name() string { return [...]string{"server A", "server B"}[s.id] }

// die ends the process; it can come back with another tenure.
func (s *server) die() { *s = server{world: s.world, id: s.id} }

// nobody is every server's node: a server may claim at any moment, as it does
// what its own last tenure left behind.
var nobody = store.Node{ID: [16]byte{1}, Link: "small"}

// claim makes the server active.
func (s *server) claim() {
	f := s.follower
	s.die()
	s.follower = f
	w := s.world
	s.wire = &wire{world: w}
	st := kvlog.New(s.wire, kvlog.Options{Clock: stopped{}, Sole: true})
	var nonce store.Nonce
	nonce[0] = byte(w.judge.epoch + 1)
	first := func(epoch uint64, nonce store.Nonce) (opening []byte) {
		f := step.Founding{Cell: cellID, Secret: make([]byte, 32), Limits: bounds.DefaultLimits}
		s.core, opening = step.Found(f, epoch, nonce, atOpening, 0)
		return opening
	}
	t, err := st.Claim(context.Background(), nobody, nonce, first)
	if err != nil {
		w.fail("I4", "%s cannot claim: %v", s.name(), err)
		return
	}
	s.tenure, s.epoch, s.phase = t, t.Epoch(), claimed
	if t.Opened() {
		s.begin()
	}
}

// replay reads the log, or what this server has not followed of it.
func (s *server) replay() {
	var log *step.Replayed
	var err error
	followed := s.follower != nil && s.follower.Position().Number > 0
	if followed {
		log, err = s.resume()
	} else {
		log, err = step.Replay(func(chunk, batch func(uint64, []byte) error) (uint64, error) {
			return s.tenure.Replay(context.Background(), chunk, batch)
		}, s.epoch, bounds.DefaultLimits)
	}
	if s.over(err) {
		return
	}
	s.follower = nil
	core, number, raw := log.Core(s.epoch, s.tenure.Nonce(), atOpening, 0)
	s.core, s.phase = core, replayed
	s.opening = flight{number: number, events: eventsIn(raw), batch: step.Batch{Number: number, Raw: raw}}
	s.world.judge.replayed(s)
	if followed {
		s.world.judge.readAnew(s)
	}
}

// open lands the opening batch, or tries to.
func (s *server) open(f fate) {
	s.wire.fate = f
	err := s.tenure.Open(context.Background(), s.opening.number, s.opening.batch.Raw)
	if s.wire.fate = lands; !s.over(err) && err == nil {
		s.begin()
	}
}

func (s *server) begin() {
	s.phase, s.opening = serving, flight{}
	s.core.Begun(s.world.reading())
}

// over ends the process when its tenure is over, and reports whether it is.
func (s *server) over(err error) bool {
	switch {
	case err == nil, errors.Is(err, errNoAnswer), errors.Is(err, store.ErrFull):
		return false
	case !errors.Is(err, store.ErrFenced):
		s.world.fail("I4", "%s: %v", s.name(), err)
	}
	s.die()
	return true
}

// step is one turn of the loop.
func (s *server) step(urgent, acquires []locktable.Command) {
	if s.phase != serving {
		return
	}
	s.turns++
	s.core.Step(s.world.reading(), atWork, urgent, acquires, true)
	s.act()
}

// act carries out what the core wants done.
func (s *server) act() {
	a := s.core.Take()
	for _, b := range a.Appends {
		s.world.judge.decided(s, b.Raw)
		s.flying = append(s.flying, flight{number: b.Number, turn: s.turns, events: eventsIn(b.Raw), batch: b})
	}
	if a.Confirm {
		s.asked, s.askedIn = true, s.turns
	}
	for r := range a.Replies() {
		s.world.judge.answered(s, &r)
		if _, renewed := r.Answer.(locktable.Renewed); renewed && s.storeFull {
			s.world.spared = true
		}
		x := r.To.(*stream)
		if !x.cut {
			x.down = append(x.down, answer{r.Number, r.Answer})
		}
	}
	if !s.asked {
		s.ask()
	}
}

// ask begins a Confirm when something waits for one; two begin some time apart.
func (s *server) ask() {
	s.core.Ask(s.world.reading().Add(confirmsApart * time.Duration(s.asks+1)))
	if s.core.Take().Confirm {
		s.asked, s.askedIn = true, s.turns
		s.asks++
	}
}

// confirm has the store answer the Confirm that is under way; slow: the answer
// does not arrive yet.
func (s *server) confirm(slow bool) {
	if !s.read {
		if s.over(s.tenure.Confirm(context.Background())) {
			return
		}
		s.read = true
	}
	if slow {
		return
	}
	s.asked, s.read = false, false
	s.core.Answered(true)
	s.act()
}

// land lands a batch, or tries to.
func (s *server) land(i int, f fate) {
	b := s.flying[i]
	s.wire.fate = f
	err := s.tenure.Append(context.Background(), b.number, b.batch.Raw)
	if s.wire.fate = lands; errors.Is(err, store.ErrFull) {
		s.storeFull = true
		s.core.Full()
		s.act()
		return
	}
	if s.over(err) || err != nil {
		return
	}
	s.flying = append(s.flying[:i:i], s.flying[i+1:]...)
	s.storeFull = false
	s.core.Landed(b.number)
	s.act()
}

// goOn is a tick in which the server's loop turns, and its Confirms are
// answered.
func (s *server) goOn() {
	for range locktable.SuspectTurns + 1 {
		if s.step(nil, nil); s.phase == serving && s.asked {
			s.confirm(false)
		}
	}
}

// breakLease is an operator's break of what the log says is held.
func (s *server) breakLease(now bool) {
	s.step([]locktable.Command{locktable.Break{Name: name, Token: s.world.judge.holder, Now: now}}, nil)
}
