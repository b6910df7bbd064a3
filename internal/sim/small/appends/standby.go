package appends

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// standby follows the log without a tenure.
type standby struct {
	at store.Position
	// read are the sums of the batches read, from the first on.
	read []store.Sum
}

func (s *standby) batch(n uint64, raw []byte) error {
	h, err := store.HeaderOf(raw)
	if err != nil {
		return err
	}
	if n != s.at.Number+1 {
		return fmt.Errorf("batch %d is shown after %d", n, s.at.Number)
	}
	s.at, s.read = store.Position{Number: n, Sum: h.Sum}, append(s.read, h.Sum)
	return nil
}

// follow has the standby read on.
func (w *World) follow() {
	st := kvlog.New(&wire{world: w}, kvlog.Options{Clock: stopped{}, Sole: true})
	err := st.Follow(context.Background(), w.standby.at, nil, w.standby.batch)
	switch {
	case err != nil && w.wasSetBack && errors.Is(err, store.ErrMoved):
		w.standby = standby{}
	case err != nil:
		w.fail("I9", "the standby follows the log: %v", err)
	case !w.wasSetBack:
		w.holds(w.standby, "the standby")
	}
}

// resume has a tenure of the standby's read on from what that has followed. False: it
// reads the log anew, since the store was set back.
func (t *tenure) resume() bool {
	w := t.world
	s := t.from
	t.from = standby{}
	head, _, err := t.real.Resume(context.Background(), s.at, s.batch)
	switch {
	case err == nil && head != s.at.Number:
		w.fail("I9", "%s reads on to batch %d, and is told that it is %d", t.name(), s.at.Number, head)
	case err == nil:
		w.holds(s, t.name())
		w.resumed = true
		t.phase = replayed
		t.make(t.real.Epoch(), t.real.Nonce(), head+1, head, s.at.Sum)
	case !errors.Is(err, store.ErrMoved):
		w.alarm(t, err)
	case !w.wasSetBack:
		w.fail("I9", "%s cannot go on from what it has followed: %v", t.name(), err)
	default:
		w.moved = true
		return false
	}
	return true
}

// holds fails when somebody has not read what the log has, and all of it (I9).
func (w *World) holds(s standby, who string) {
	if s.at.Number != w.head {
		w.fail("I9", "%s has followed the log up to batch %d, and it ends with %d", who, s.at.Number, w.head)
		return
	}
	for i, sum := range s.read {
		if b := w.log[uint64(i+1)]; b.sum != sum {
			w.fail("I9", "%s has another batch %d than the log", who, i+1)
		}
	}
}
