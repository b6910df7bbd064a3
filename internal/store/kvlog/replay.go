package kvlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/pawlproject/pawl/internal/store"
)

const (
	// pageMin is how many batches or chunks are read at once to begin with, and
	// where they are large: each may be BatchMax long.
	pageMin = 16
	// pageMax bounds how many are read at once where they turn out small. Every page
	// is a way to the store and back, and costs it a look at all keys behind.
	pageMax = 128
	// pageBytes is the approximate size of a page.
	pageBytes = 512 << 10
)

// nextPage is how many to read at once after a page for which limit was allowed: twice
// as many at most, for the next ones may be of another size.
func nextPage(limit int, page Page) int {
	size := 0
	for _, p := range page.Pairs {
		size += len(p.Value)
	}
	switch {
	case size > pageBytes:
		return pageMin
	case size > pageBytes/2:
		return limit
	}
	return min(2*limit, pageMax)
}

// Replay reads the snapshot and the log as they were at one revision after the
// tenure began, and checks the chain as it goes.
func (t *tenure) Replay(ctx context.Context, chunk, batch func(n uint64, b []byte) error) (uint64, error) {
	r, err := t.reads(ctx)
	if err != nil {
		return 0, err
	}
	r.onChunk, r.onBatch = chunk, batch
	if err := r.run(ctx); err != nil {
		return 0, t.end(err)
	}
	t.replayedTo(r)
	return r.head, nil
}

// reads begins a walk over what is there now, in this tenure.
func (t *tenure) reads(ctx context.Context) (*replay, error) {
	if err := t.ended(); err != nil {
		return nil, err
	}
	res, err := t.txn(ctx, Txn{What: WhatRead, Then: []Op{get(t.keys.Tenure()), get(t.keys.Snapshot())}})
	if err == nil {
		err = t.inForce(res.Gets[0])
	}
	if err != nil {
		return nil, t.end(fmt.Errorf("replay: %w", err))
	}
	return &replay{Store: t.Store, epoch: t.epoch, query: t.page, at: res.Rev, pointer: res.Gets[1]}, nil
}

func (t *tenure) replayedTo(r *replay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = &replayed{number: r.head, at: r.headAt}
}

// replay is one walk over snapshot and log.
type replay struct {
	*Store
	// epoch is that of the tenure in force: no batch is of a later one.
	epoch uint64
	// query reads a page; at is the revision, 0: the newest for each page.
	query            func(context.Context, Query) (Page, error)
	at               int64
	pointer          Pair
	onChunk, onBatch func(n uint64, b []byte) error

	snap pointerValue
	// head is the last batch before the first hole; headAt, headSum and
	// headEpoch are its own.
	head      uint64
	headAt    Cond
	headSum   []byte
	headEpoch uint64
	// hole: a batch is missing behind head, and others lie behind it.
	hole bool
}

func (r *replay) run(ctx context.Context) error {
	var err error
	if r.snap, err = decodePointer(r.pointer); err != nil {
		return err
	}
	from := uint64(1)
	if r.pointer.Rev != 0 {
		if err := r.chunks(ctx); err != nil {
			return err
		}
		r.head, r.headAt = r.snap.Batch, at(r.pointer)
		r.headSum = r.snap.Sum
		from = r.snap.Batch
	}
	err = r.each(ctx, r.keys.Log(from), r.keys.LogEnd(), r.entry)
	if err == nil && r.head == 0 {
		err = fmt.Errorf("%w: batch 1 is missing: there is a tenure and no log", store.ErrDamaged)
	}
	return err
}

func (r *replay) each(ctx context.Context, from, to string, visit func(Pair) error) error {
	limit := pageMin
	for more := true; more; {
		page, err := r.query(ctx, Query{From: from, To: to, Rev: r.at, Limit: limit})
		if err != nil {
			return fmt.Errorf("read on at %s: %w", from, err)
		}
		for _, p := range page.Pairs {
			if err := visit(p); err != nil {
				return err
			}
			from = p.Key + "\x00"
		}
		more, limit = page.More, nextPage(limit, page)
	}
	return nil
}

// chunks reads the snapshot and checks that it is whole.
func (r *replay) chunks(ctx context.Context) error {
	folder := r.keys.Chunks(r.snap.Batch, r.snap.Epoch)
	sums := sha256.New()
	count := 0
	damaged := func(i int, why string) error {
		return fmt.Errorf("%w: the snapshot after batch %d: chunk %d %s", store.ErrDamaged, r.snap.Batch, i, why)
	}
	err := r.each(ctx, folder, r.keys.ChunksEnd(folder), func(p Pair) error {
		if of, ours := r.keys.folderOf(p.Key); !ours || of != folder {
			return nil
		}
		if p.Key != r.keys.Chunk(folder, count) {
			return damaged(count, "is missing")
		}
		h, err := store.ChunkHeaderOf(p.Value)
		if err != nil {
			return fmt.Errorf("the snapshot after batch %d, chunk %d: %w", r.snap.Batch, count, err)
		}
		if err := chunkFits(h, r.snap.Batch, r.snap.Sum, count); err != nil {
			return damaged(count, err.Error())
		}
		if h.Last != (count == r.snap.Chunks-1) {
			return damaged(count, "ends the snapshot where it should not, or does not where it should")
		}
		sums.Write(h.Sum[:])
		count++
		return r.onChunk(r.snap.Batch, p.Value)
	})
	switch {
	case err != nil:
		return err
	case count != r.snap.Chunks:
		return damaged(count, "is missing")
	case !bytes.Equal(sums.Sum(nil), r.snap.ChunksSum):
		return damaged(0, "or a later one is not the one that was written")
	}
	return nil
}

func chunkFits(h store.ChunkHeader, batch uint64, sum []byte, index int) error {
	if h.Number != batch || !bytes.Equal(h.Previous, sum) || h.Index != uint64(index) {
		return fmt.Errorf("belongs to another place: number %d, index %d", h.Number, h.Index)
	}
	return nil
}

// entry visits what lies in the log, in ascending order.
func (r *replay) entry(p Pair) error {
	n, ours := r.keys.logNumber(p.Key)
	switch {
	case !ours:
		r.opts.Logger.Warn("a key that is none of ours lies among the batches and is passed over", "key", p.Key)
		return nil
	case n == 0:
		return nil
	case n == r.head && r.pointer.Rev != 0:
		return r.covered(p, n)
	case r.hole || n != r.head+1:
		return r.behind(p, n)
	}
	return r.next(p, n)
}

// next takes in the batch after the head.
func (r *replay) next(p Pair, n uint64) error {
	h, err := store.HeaderOf(p.Value)
	if err != nil {
		return fmt.Errorf("batch %d: %w", n, err)
	}
	if err := r.follows(h, n); err != nil {
		return err
	}
	r.head, r.headAt = n, at(p)
	r.headSum, r.headEpoch = h.Sum[:], h.Epoch
	return r.onBatch(n, p.Value)
}

// covered checks the batch that the snapshot follows.
func (r *replay) covered(p Pair, n uint64) error {
	h, err := store.HeaderOf(p.Value)
	if err != nil {
		return fmt.Errorf("batch %d: %w", n, err)
	}
	if h.Number != n || !bytes.Equal(h.Sum[:], r.snap.Sum) {
		return fmt.Errorf("%w: batch %d is not the one that the snapshot follows", store.ErrDamaged, n)
	}
	r.headAt, r.headEpoch = at(p), h.Epoch
	return nil
}

// follows holds a batch against the one before. Whatever does not fit is
// damage, known durable or not: no order of writes of ours leaves it.
func (r *replay) follows(h store.Header, n uint64) error {
	switch {
	case h.Number != n:
		return fmt.Errorf("%w: batch %d says that it is batch %d", store.ErrDamaged, n, h.Number)
	case !bytes.Equal(h.Previous, r.headSum):
		return fmt.Errorf("%w: batch %d does not follow the one before it", store.ErrDamaged, n)
	case h.Epoch < r.headEpoch || h.Epoch > r.epoch:
		return fmt.Errorf("%w: batch %d is of epoch %d, after one of epoch %d and before mine, %d", store.ErrDamaged, n, h.Epoch, r.headEpoch, r.epoch)
	case h.Durable >= n:
		return fmt.Errorf("%w: batch %d says that %d was durable before it", store.ErrDamaged, n, h.Durable)
	}
	return nil
}

// behind checks a batch behind a hole. Such batches are cut, unless they prove that the
// missing batch had been acknowledged: its number is known to be durable, or this batch
// could not have been sent before.
func (r *replay) behind(p Pair, n uint64) error {
	r.hole = true
	missing := r.head + 1
	known := uint64(0)
	if n > store.InFlight {
		known = n - store.InFlight
	}
	if h, err := store.HeaderOf(p.Value); err == nil && h.Number == n {
		known = max(known, h.Durable)
	}
	if missing <= known {
		return fmt.Errorf("%w: batch %d is missing, and batch %d shows that it was durable", store.ErrDamaged, missing, n)
	}
	return nil
}
