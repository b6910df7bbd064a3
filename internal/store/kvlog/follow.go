package kvlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pawlproject/pawl/internal/store"
)

// Following rests on one fact. What a read shows with all batches before it is in the
// log for ever, unless the store is set back:
//
//  1. The read shows the batches up to n, and no hole before n.
//  2. A batch goes by a cut alone, or when a published snapshot stands for it. No batch
//     is ever replaced: an append compares that there is none.
//  3. A cut is part of an opening, which compares that batch h+1 is absent and deletes
//     from h+2 on. It lands after the read, where all up to n are there: so h ≥ n.
//
// So a standby applies what it reads at once, keeps nothing that lies behind a hole,
// and need not wait for a later batch that says what was durable: a batch in a hole's
// shadow, which a cut may remove, is not read before the hole is filled. The pages of
// one read may be of different revisions for the same reason.
//
// When the standby's turn has come, Resume reads the last batches that it has once more,
// in its tenure, and what follows. If they are not what they were, or one is missing and
// no snapshot stands for it, the store was set back. The last one alone would not do:
//
//  1. Batch 3 lands before batch 2, which was sent with it. The store is saved.
//  2. Batch 2 lands, and the standby reads up to 3.
//  3. The store is set back to what was saved. Batch 3 is there as it was, and 2 is lost.
//
// A batch landed only where all were there but those that were on their way with it, so
// the last store.InFlight are enough.

// Follow reads on without a tenure.
//
// It goes around compare: that tells of a roll-back once, and who must hear it is the
// claimant that waits beside.
func (s *Store) Follow(ctx context.Context, from store.Position, chunk, batch func(n uint64, b []byte) error) error {
	r := &replay{Store: s, query: s.kv.Range, onChunk: chunk, onBatch: batch}
	var err error
	if from.Number == 0 {
		err = r.followAll(ctx)
	} else {
		err = moved(r.followOn(ctx, from))
	}
	if err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	return nil
}

// followAll reads all there is, at one revision.
func (r *replay) followAll(ctx context.Context) error {
	res, err := r.kv.Txn(ctx, Txn{What: WhatRead, Then: []Op{get(r.keys.Tenure()), get(r.keys.Snapshot())}})
	if err != nil || res.Gets[0].Rev == 0 {
		return err
	}
	v, err := decodeTenure(res.Gets[0].Value)
	if err != nil {
		return err
	}
	r.epoch, r.at, r.pointer = v.Epoch, res.Rev, res.Gets[1]
	return r.run(ctx)
}

// errHole ends a read at the first hole.
var errHole = errors.New("a batch is missing")

// followOn reads what follows a position, in pages of the newest state.
func (r *replay) followOn(ctx context.Context, from store.Position) error {
	// The epoch of the tenure in force is not known; a take-over checks it.
	r.epoch, r.head, r.headSum = math.MaxUint64, from.Number, from.Sum[:]
	err := r.each(ctx, r.keys.Log(from.Number+1), r.keys.LogEnd(), func(p Pair) error {
		n, ours := r.keys.logNumber(p.Key)
		switch {
		case !ours:
			return nil
		case n != r.head+1:
			return errHole
		}
		return r.next(p, n)
	})
	if !errors.Is(err, errHole) {
		return err
	}
	res, err := r.kv.Txn(ctx, Txn{What: WhatRead, Then: []Op{get(r.keys.Snapshot())}})
	if err != nil {
		return err
	}
	r.snap, err = decodePointer(res.Gets[0])
	if err == nil && r.snap.Batch > r.head {
		err = r.gone(store.Position{Number: r.head})
	}
	return err
}

// moved has damage found behind a position looked at again from the beginning: what
// was read before may be what does not fit.
func moved(err error) error {
	if errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrMoved) {
		return fmt.Errorf("%w: %w", store.ErrMoved, err)
	}
	return err
}

// Resume reads what follows a position, at one revision after the tenure began.
func (t *tenure) Resume(ctx context.Context, from store.Position, batch func(n uint64, b []byte) error) (uint64, store.Published, error) {
	r, err := t.reads(ctx)
	if err != nil {
		return 0, store.Published{}, err
	}
	r.onBatch = batch
	switch err := moved(r.resume(ctx, from)); {
	case errors.Is(err, store.ErrMoved):
		return 0, store.Published{}, fmt.Errorf("resume: %w", err)
	case err != nil:
		return 0, store.Published{}, t.end(fmt.Errorf("resume: %w", err))
	}
	t.replayedTo(r)
	return r.head, store.Published{Batch: r.snap.Batch, Chunks: r.snap.Chunks}, nil
}

func (r *replay) resume(ctx context.Context, from store.Position) error {
	var err error
	if r.snap, err = decodePointer(r.pointer); err != nil {
		return err
	}
	r.head, r.headSum = from.Number, from.Sum[:]
	if from.Number == r.snap.Batch && bytes.Equal(r.snap.Sum, from.Sum[:]) {
		// The batch itself may be gone.
		r.headAt = at(r.pointer)
	}
	k := known{from: from, due: from.Number}
	if r.snap.Batch < from.Number {
		// Batches that the snapshot stands for were there when it was published.
		k.due = max(r.snap.Batch, from.Number-min(from.Number, store.InFlight)) + 1
		if k.due == r.snap.Batch+1 {
			k.previous = r.snap.Sum // nil where there is none
		}
	}
	err = r.each(ctx, r.keys.Log(k.due), r.keys.LogEnd(), func(p Pair) error { return r.fromKnown(p, &k) })
	switch {
	case err != nil:
		return err
	case r.headAt.Key == "" || r.head < r.snap.Batch:
		return r.gone(from)
	}
	return nil
}

// known are the last batches of a position, as they are read once more.
type known struct {
	from store.Position
	// due is the next of them, and previous the sum of the one before it; nil: it is the
	// first.
	due      uint64
	previous []byte
}

// gone says why the batch at a position is not in the log any more.
func (r *replay) gone(from store.Position) error {
	if from.Number < r.snap.Batch {
		return fmt.Errorf("%w: it was read up to batch %d, and the snapshot follows batch %d", store.ErrMoved, from.Number, r.snap.Batch)
	}
	return fmt.Errorf("%w: %w: batch %d is missing, and was read before", store.ErrMoved, store.ErrRolledBack, from.Number)
}

// fromKnown visits what lies in the log from the last batches of a position on.
func (r *replay) fromKnown(p Pair, k *known) error {
	n, ours := r.keys.logNumber(p.Key)
	switch {
	case !ours:
		return nil
	case n <= k.from.Number:
		return r.again(p, n, k)
	case r.headAt.Key == "":
		return r.gone(k.from)
	case r.hole || n != r.head+1:
		return r.behind(p, n)
	}
	if err := r.next(p, n); err != nil {
		return err
	}
	if n == r.snap.Batch && !bytes.Equal(r.headSum, r.snap.Sum) {
		return fmt.Errorf("%w: batch %d is not the one that the snapshot follows", store.ErrDamaged, n)
	}
	return nil
}

// again visits a batch that was read before.
func (r *replay) again(p Pair, n uint64, k *known) error {
	h, err := store.HeaderOf(p.Value)
	last := n == k.from.Number
	switch {
	case err != nil:
		return fmt.Errorf("batch %d: %w", n, err)
	case n != k.due:
		return r.gone(store.Position{Number: k.due})
	case h.Number != n, last && h.Sum != k.from.Sum, k.previous != nil && !bytes.Equal(h.Previous, k.previous):
		return fmt.Errorf("%w: %w: batch %d is not the one that was read before", store.ErrMoved, store.ErrRolledBack, n)
	case n == r.snap.Batch && !bytes.Equal(h.Sum[:], r.snap.Sum):
		return fmt.Errorf("%w: batch %d is not the one that the snapshot follows", store.ErrDamaged, n)
	case h.Epoch > r.epoch:
		return fmt.Errorf("%w: batch %d is of epoch %d, and mine is %d", store.ErrDamaged, n, h.Epoch, r.epoch)
	}
	k.due, k.previous = n+1, h.Sum[:]
	if last {
		r.headAt, r.headEpoch = at(p), h.Epoch
	}
	return nil
}
