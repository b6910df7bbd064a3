package kvlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// tenure is one server's time as the active one.
type tenure struct {
	*Store
	epoch  uint64
	nonce  store.Nonce
	value  []byte
	rev    int64
	opened bool

	lost      chan struct{}
	stopBeat  context.CancelFunc
	beating   context.Context
	snapshots sync.Mutex

	// mu guards what follows.
	mu sync.Mutex
	// over is why the tenure ended, nil while it may be in force.
	over error
	// resigning: the tenure ends as asked.
	resigning bool
	// sign is the clock before the last sign of life went out that was answered in
	// time; the claim is the first.
	sign clock.Reading
	// head is where Open goes on, once replayed.
	head *replayed
	// durable is the highest batch up to which all have landed; it is 0 before the
	// tenure was opened with batch opening. revs holds the revisions at which the last
	// batches were put, by number.
	opening, durable uint64
	revs             [store.InFlight]int64
	// landed holds the revisions of batches behind a hole.
	landed map[uint64]int64
	// follows holds, of the last durable batch and of those on their way, what was
	// durable when it was first sent: what its append compares.
	follows map[uint64]uint64
}

// replayed is where a replay ended.
type replayed struct {
	number uint64
	// at is the condition that the head has not changed since.
	at Cond
}

var _ store.Tenure = (*tenure)(nil)

func newTenure(s *Store, epoch uint64, nonce store.Nonce, value []byte, rev int64, sign clock.Reading) *tenure {
	t := &tenure{
		Store: s, epoch: epoch, nonce: nonce, value: value, rev: rev, sign: sign,
		lost: make(chan struct{}), landed: map[uint64]int64{}, follows: map[uint64]uint64{},
	}
	s.mu.Lock()
	s.claimed = true
	s.mu.Unlock()
	s.serving.Store(epoch)
	t.beating, t.stopBeat = context.WithCancel(s.closed)
	if !s.opts.Sole {
		s.opts.Beside(t.beat)
	}
	s.opts.Logger.Info("tenure begun", "epoch", epoch)
	return t
}

func (t *tenure) Epoch() uint64         { return t.epoch }
func (t *tenure) Nonce() store.Nonce    { return t.nonce }
func (t *tenure) Opened() bool          { return t.opened }
func (t *tenure) Lost() <-chan struct{} { return t.lost }

// mine is the condition that this tenure is in force.
func (t *tenure) mine() []Cond {
	key := t.keys.Tenure()
	return []Cond{atRev(key, t.rev), holds(key, t.value)}
}

// tail is the condition that every batch up to the last durable one is as it was
// acknowledged. Comparing the last one alone is not enough when the store is rolled
// back:
//
//  1. Batch 7 is acknowledged. Batch 8, which was sent before that and compares batch 6,
//     is still on its way.
//  2. The store is set back to a state that ends with batch 6.
//  3. Batch 8 lands behind the hole and is acknowledged. A reader that compares batch 8
//     alone never learns that 7 is gone.
//
// So tail also compares the batches that were on their way when the last one was sent.
// The last one landed only where the batches that it compared were there; those, by the
// same argument, landed only where all before them were. So no roll-back since then has
// removed any of them and left the last one. Package sim/small/appends tries every
// order of this.
//
// In the example batch 8 itself is acknowledged though 7 is gone, because it was on its
// way before anybody could know. Everything sent after that is refused. The caller
// holds t.mu.
func (t *tenure) tail() []Cond {
	var all []Cond
	for n := max(t.opening, t.follows[t.durable]+1); n <= t.durable; n++ {
		all = append(all, atRev(t.keys.Log(n), t.revs[n%store.InFlight]))
	}
	return all
}

// end marks the tenure as over when err says so, and returns err.
func (t *tenure) end(err error) error {
	if err == nil || !final(err) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.over = err
		t.serving.CompareAndSwap(t.epoch, 0)
		t.stopBeat()
		close(t.lost)
		if t.resigning {
			t.opts.Logger.Info("tenure resigned", "epoch", t.epoch)
		} else {
			t.opts.Logger.Warn("tenure over", "epoch", t.epoch, "error", err)
		}
	}
	return err
}

// ended returns why the tenure is over, nil while it may be in force.
func (t *tenure) ended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// inForce reads the tenure as a failed transaction's Else saw it; nil: mine.
func (t *tenure) inForce(p Pair) error {
	if p.Rev == t.rev && bytes.Equal(p.Value, t.value) {
		return nil
	}
	if p.Rev == 0 {
		return fmt.Errorf("%w: nobody's tenure is in the store", store.ErrFenced)
	}
	v, err := decodeTenure(p.Value)
	switch {
	case err != nil:
		return err
	case v.Epoch < t.epoch, v.Epoch == t.epoch && !v.sameNonce(t.nonce):
		return fmt.Errorf("%w: the tenure of epoch %d is in the store and mine is of epoch %d", store.ErrRolledBack, v.Epoch, t.epoch)
	}
	return fmt.Errorf("%w: epoch %d is in force and mine was %d", store.ErrFenced, v.Epoch, t.epoch)
}

// Confirm is a linearizable read. It compares the last durable batches as well,
// so that a roll-back under a running server is seen without a write.
func (t *tenure) Confirm(ctx context.Context) error {
	for {
		if err := t.ended(); err != nil {
			return err
		}
		t.mu.Lock()
		d, tail := t.durable, t.tail()
		t.mu.Unlock()
		ask := Txn{What: WhatConfirm, If: append(t.mine(), tail...), Else: []Op{get(t.keys.Tenure())}}
		res, err := t.txn(ctx, ask)
		if err == nil && !res.OK {
			err = t.inForce(res.Gets[0])
			if err == nil && t.movedOn(d) {
				continue // a snapshot may have taken those away meanwhile
			}
			if err == nil {
				err = fmt.Errorf("%w: batch %d, or one shortly before it, is not as it was acknowledged", store.ErrRolledBack, d)
			}
		}
		if err != nil {
			return t.end(fmt.Errorf("confirm the tenure: %w", err))
		}
		return nil
	}
}

// movedOn reports whether more than d is durable by now.
func (t *tenure) movedOn(d uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.durable > d
}

// Usage says how full the store is.
func (t *tenure) Usage(ctx context.Context) (store.Usage, error) { return t.kv.Usage(ctx) }

// Resign gives the tenure to nobody. Whatever the outcome, this server gives no
// sign of life any more. A tenure that is over is resigned already.
func (t *tenure) Resign(ctx context.Context) error {
	t.stopBeat()
	if errors.Is(t.ended(), store.ErrFenced) {
		return nil
	}
	t.mu.Lock()
	t.resigning = true
	t.mu.Unlock()
	empty := t.tenureOf(t.epoch, store.Node{}, t.nonce)
	res, err := t.txn(ctx, Txn{
		What: WhatResign,
		If:   t.mine(),
		Then: []Op{put(t.keys.Tenure(), empty)},
		Else: []Op{get(t.keys.Tenure())},
	})
	if err == nil && !res.OK {
		if err = t.inForce(res.Gets[0]); err == nil {
			panic("kvlog: a tenure compares as mine and as not mine in one transaction")
		}
	}
	switch {
	case err == nil:
		_ = t.end(fmt.Errorf("%w: resigned", store.ErrFenced))
		return nil
	case errors.Is(err, store.ErrFenced):
		_ = t.end(err)
		return nil
	}
	return t.end(fmt.Errorf("resign the tenure: %w", err))
}

// beat gives signs of life until the tenure ends. A failed one is followed by
// the next; only a failed comparison ends the tenure. One that a full store refuses
// counts when the store confirms the tenure.
func (t *tenure) beat() {
	timer := t.opts.Clock.NewTimer()
	defer timer.Stop()
	for n := uint64(1); ; n++ {
		sent := t.opts.Clock.Now()
		res, err := t.txn(t.beating, Txn{
			What: WhatBeat,
			If:   t.mine(),
			Then: []Op{put(t.keys.Beat(), fmt.Appendf(nil, "%d/%d", t.epoch, n))},
			Else: []Op{get(t.keys.Tenure())},
		})
		switch {
		case err == nil && res.OK:
			t.signed(sent)
		case errors.Is(err, store.ErrFull):
			// A claim is refused as well, if a majority of the store says so. What says that
			// it is full may be one member that is cut off from the others, where a claim
			// lands meanwhile. Only the majority answers a Confirm.
			if err = t.Confirm(t.beating); err == nil {
				t.signed(sent)
			}
		case err == nil:
			err = t.inForce(res.Gets[0])
		}
		if final(t.end(err)) || !sleep(t.beating, timer, t.opts.ActiveTTL/10) {
			return
		}
	}
}
