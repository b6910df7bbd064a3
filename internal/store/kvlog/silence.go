package kvlog

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// silenceMax is how long after its last sign of life a tenure may still send and
// believe answers. A standby waits for the whole ActiveTTL, this server's, which
// the tenure's key tells; the tenth between is for clocks that run at different
// rates.
func (s *Store) silenceMax() time.Duration { return s.opts.ActiveTTL / 10 * 9 }

// txn sends a transaction while the tenure may, and believes the answer while it
// still may.
func (t *tenure) txn(ctx context.Context, x Txn) (Result, error) {
	if err := t.silent(); err != nil {
		return Result{}, err
	}
	res, err := t.Store.txn(ctx, x)
	if final(err) {
		return res, err
	}
	if err := t.silent(); err != nil {
		return Result{}, err
	}
	return res, err
}

// silent ends the tenure when no sign of life of it was answered for too long.
// Time asleep counts: it is the longer of the two clocks, as for a holder.
func (t *tenure) silent() error {
	if t.opts.Sole {
		return nil
	}
	t.mu.Lock()
	since := t.opts.Clock.Now().Longer(t.sign)
	t.mu.Unlock()
	if since < t.silenceMax() {
		return nil
	}
	t.noteSilentEnd(t.value)
	return t.end(fmt.Errorf("%w: none of its signs of life was answered for %v", store.ErrFenced, since.Round(time.Millisecond)))
}

// signed takes in that a sign of life was answered in time.
func (t *tenure) signed(sent clock.Reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.sign = sent
	}
}

// noteSilentEnd notes a tenure that ended here in silence.
func (s *Store) noteSilentEnd(value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silenced = value
}

// left returns the last tenure that ended here in silence.
func (s *Store) left() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silenced
}
