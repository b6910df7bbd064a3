package small

import (
	"bytes"
	"context"
	"errors"
	"reflect"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// past is a durable batch, as a judge keeps it where standbys follow the log.
type past struct {
	sum    store.Sum
	events []byte
}

// follow has a standby read on.
func (s *server) follow() {
	if s.follower == nil {
		s.follower = step.NewFollower(bounds.DefaultLimits)
	}
	st := kvlog.New(&wire{world: s.world}, kvlog.Options{Clock: stopped{}, Sole: true})
	read := func(from store.Position, chunk, batch func(uint64, []byte) error) error {
		return st.Follow(context.Background(), from, chunk, batch)
	}
	complete, err := s.follower.Read(stopped{}, read)
	if err != nil || !complete {
		s.world.fail("I9", "%s follows the log, and comes to an end: %v", s.name(), err)
	}
	s.world.judge.followed(s)
}

// resume reads what a standby has not read yet, in its tenure.
func (s *server) resume() (*step.Replayed, error) {
	log, err := s.follower.Resume(func(from store.Position, batch func(uint64, []byte) error) (uint64, store.Published, error) {
		return s.tenure.Resume(context.Background(), from, batch)
	}, s.epoch)
	if errors.Is(err, store.ErrMoved) {
		s.world.fail("I9", "%s cannot go on from what it has followed: %v", s.name(), err)
	}
	if err == nil {
		s.world.resumed = true
	}
	return log, err
}

// followed holds what a standby has read against the log: it is all that is durable,
// and nothing that may yet be cut (I9).
func (j *judge) followed(s *server) {
	at := s.follower.Position()
	switch {
	case at.Number != j.head:
		j.world.fail("I9", "%s has followed the log up to batch %d, and %d are durable", s.name(), at.Number, j.head)
	case at.Sum != j.past[at.Number].sum:
		j.world.fail("I9", "%s has followed another batch %d than the log has", s.name(), at.Number)
	}
}

// readAnew holds what a standby takes over with against what reading the whole log
// anew gives, its opening batch included (I9).
func (j *judge) readAnew(s *server) {
	st := kvlog.New(&wire{world: j.world}, kvlog.Options{Clock: stopped{}, Sole: true})
	log, err := step.Replay(func(chunk, batch func(uint64, []byte) error) (head uint64, err error) {
		err = st.Follow(context.Background(), store.Position{}, chunk, func(n uint64, raw []byte) error {
			head = n
			return batch(n, raw)
		})
		return head, err
	}, s.epoch, bounds.DefaultLimits)
	if err != nil {
		j.world.fail("I9", "the log cannot be read anew: %v", err)
		return
	}
	core, _, opening := log.Core(s.epoch, s.tenure.Nonce(), atOpening, 0)
	if !bytes.Equal(opening, s.opening.batch.Raw) {
		j.world.fail("I9", "%s opens with another batch than one that has read the whole log", s.name())
	}
	if !bytes.Equal(frozen(core.Table()), frozen(s.core.Table())) {
		j.world.fail("I9", "%s takes over with another table than one that has read the whole log", s.name())
	}
}

// unread writes down what the log has behind the position of a standby: it may get
// there by batches that lead to one table in different ways.
func (d *digest) unread() {
	j := d.world.judge
	for _, s := range d.world.servers {
		if s.follower == nil || s.follower.Position().Number == 0 {
			continue
		}
		for n := s.follower.Position().Number + 1; n <= j.head; n++ {
			d.value(reflect.ValueOf(j.past[n].events))
		}
	}
}

// noteCut notes that something is cut while a standby has read a part of the log.
func (w *World) noteCut() {
	for _, s := range w.servers {
		if len(w.judge.behind) > 0 && s.phase == idle && s.follower != nil {
			w.cut = true
		}
	}
}
