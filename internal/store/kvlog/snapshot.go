package kvlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"

	"github.com/pawlproject/pawl/internal/store"
)

// kept is how many of the batches up to a snapshot stay in the log.
const kept = 2 * store.InFlight

// truncateMax bounds how many batches one transaction deletes: a store that
// applies one at a time answers nothing else meanwhile.
const truncateMax = 512

// Snapshot writes the chunks, points at them, and then removes what nothing
// points at any more. After an error it may be called again, for the same batch
// with the same chunks or for a later one.
func (t *tenure) Snapshot(ctx context.Context, upTo uint64, chunks iter.Seq[[]byte]) error {
	if !t.snapshots.TryLock() {
		return errors.New("snapshot: another one is being taken")
	}
	defer t.snapshots.Unlock()
	if err := t.ended(); err != nil {
		return err
	}
	if !t.movedOn(upTo - 1) {
		return fmt.Errorf("snapshot after batch %d: it is not durable", upTo)
	}
	if err := t.snapshot(ctx, upTo, chunks); err != nil {
		return t.end(fmt.Errorf("snapshot after batch %d: %w", upTo, err))
	}
	return nil
}

func (t *tenure) snapshot(ctx context.Context, upTo uint64, chunks iter.Seq[[]byte]) error {
	entry, pointer, err := t.before(ctx, upTo)
	if err != nil {
		return err
	}
	present, err := decodePointer(pointer)
	if err != nil {
		return err
	}
	if present.Batch == upTo && present.Epoch == t.epoch {
		return t.tidy(ctx, present, pointer)
	}
	if present.Batch >= upTo {
		return fmt.Errorf("the present one follows batch %d", present.Batch)
	}
	if entry.Rev == 0 {
		return fmt.Errorf("%w: it was acknowledged and is missing", store.ErrRolledBack)
	}
	head, err := store.HeaderOf(entry.Value)
	if err != nil {
		return err
	}
	next := pointerValue{Format: store.Format, Batch: upTo, Epoch: t.epoch, Sum: head.Sum[:]}
	last, err := t.write(ctx, &next, chunks)
	if err != nil {
		return err
	}
	pointer, err = t.publish(ctx, next, pointer, entry, last)
	if err != nil {
		return err
	}
	return t.tidy(ctx, next, pointer)
}

// before reads what the publication will compare with.
func (t *tenure) before(ctx context.Context, upTo uint64) (entry, pointer Pair, err error) {
	reads := []Op{get(t.keys.Tenure()), get(t.keys.Log(upTo)), get(t.keys.Snapshot())}
	res, err := t.txn(ctx, Txn{What: WhatRead, Then: reads})
	if err == nil {
		err = t.inForce(res.Gets[0])
	}
	if err != nil {
		return Pair{}, Pair{}, err
	}
	return res.Gets[1], res.Gets[2], nil
}

// write puts the chunks, only where no key is: a chunk of an earlier try that lands
// late must not replace a published one. It returns the last chunk's key and revision.
func (t *tenure) write(ctx context.Context, next *pointerValue, chunks iter.Seq[[]byte]) (Pair, error) {
	folder := t.keys.Chunks(next.Batch, next.Epoch)
	sums, ended := sha256.New(), false
	var place Pair
	for raw := range chunks {
		if ended {
			return Pair{}, fmt.Errorf("chunk %d follows the one marked as last", next.Chunks)
		}
		var err error
		if place, ended, err = t.chunk(ctx, folder, next, raw, sums); err != nil {
			return Pair{}, fmt.Errorf("chunk %d: %w", next.Chunks, err)
		}
		next.Chunks++
	}
	if !ended {
		return Pair{}, errors.New("no chunk is marked as the last")
	}
	next.ChunksSum = sums.Sum(nil)
	return place, nil
}

func (t *tenure) chunk(ctx context.Context, folder string, next *pointerValue, raw []byte, sums hash.Hash) (place Pair, last bool, err error) {
	if err := fits(next.Batch, raw); err != nil {
		return Pair{}, false, err
	}
	h, err := store.ChunkHeaderOf(raw)
	if err != nil {
		return Pair{}, false, err
	}
	if err := chunkFits(h, next.Batch, next.Sum, next.Chunks); err != nil {
		return Pair{}, false, err
	}
	sums.Write(h.Sum[:])
	key := t.keys.Chunk(folder, next.Chunks)
	res, err := t.txn(ctx, Txn{
		What: WhatChunk,
		If:   append(t.mine(), absent(key)),
		Then: []Op{put(key, raw)},
		Else: []Op{get(t.keys.Tenure()), get(key)},
	})
	place = Pair{Key: key, Rev: res.Rev}
	if err == nil && !res.OK {
		err = t.inForce(res.Gets[0])
		if err == nil && !bytes.Equal(res.Gets[1].Value, raw) {
			err = errors.New("an earlier try left another one there; take a snapshot after a later batch")
		}
		place.Rev = res.Gets[1].Rev
	}
	return place, h.Last, err
}

// publish moves the pointer to the new snapshot. It may land on a store that was rolled
// back meanwhile, where chunks are missing, or a batch before entry although entry is
// there (see tail). So it compares the last chunk, and those batches.
func (t *tenure) publish(ctx context.Context, next pointerValue, pointer, entry, last Pair) (Pair, error) {
	t.mu.Lock()
	value, known := encode(next), append(t.tail(), at(pointer), at(entry), at(last))
	t.mu.Unlock()
	res, err := t.txn(ctx, Txn{
		What: WhatPublish,
		If:   append(t.mine(), known...),
		Then: []Op{put(t.keys.Snapshot(), value)},
		Else: []Op{get(t.keys.Tenure()), get(t.keys.Snapshot())},
	})
	switch {
	case err != nil:
		return Pair{}, err
	case res.OK:
		return Pair{Key: t.keys.Snapshot(), Value: value, Rev: res.Rev}, nil
	}
	if err := t.inForce(res.Gets[0]); err != nil {
		return Pair{}, err
	}
	if !bytes.Equal(res.Gets[1].Value, value) {
		if v, err := decodePointer(res.Gets[1]); err == nil && v.Epoch == t.epoch && v.Batch < next.Batch && res.Gets[1].Rev > pointer.Rev {
			return Pair{}, fmt.Errorf("an earlier try, after batch %d, was published meanwhile", v.Batch)
		}
		return Pair{}, fmt.Errorf("%w: the snapshot's key or batch %d is not as it was", store.ErrRolledBack, next.Batch)
	}
	return res.Gets[1], nil
}

// tidy removes the batches and chunks that the published snapshot replaced. It compares
// the pointer. So a publication of an earlier try that is still on its way can never
// land afterwards, and nothing removed here can be pointed at later.
func (t *tenure) tidy(ctx context.Context, present pointerValue, pointer Pair) error {
	if err := t.truncate(ctx, present, pointer); err != nil {
		return fmt.Errorf("published, but truncate the log: %w", err)
	}
	if err := t.sweep(ctx, present, pointer); err != nil {
		return fmt.Errorf("published, but sweep old chunks: %w", err)
	}
	if err := t.kv.Compact(ctx, pointer.Rev); err != nil {
		return fmt.Errorf("published, but compact the store: %w", err)
	}
	return nil
}

// truncate ascends, so that what remains is always whole from some number on.
func (t *tenure) truncate(ctx context.Context, present pointerValue, pointer Pair) error {
	if present.Batch < kept {
		return nil
	}
	end := present.Batch - kept + 1
	for {
		page, err := t.page(ctx, Query{From: t.keys.Log(0), To: t.keys.Log(end), Limit: truncateMax, KeysOnly: true})
		if err != nil || len(page.Pairs) == 0 {
			return err
		}
		var first, last uint64
		for _, p := range page.Pairs {
			if n, ours := t.keys.logNumber(p.Key); ours {
				last = n
				if first == 0 {
					first = n
				}
			}
		}
		if last == 0 {
			return nil
		}
		if err := t.remove(ctx, WhatTruncate, pointer, drop(t.keys.Log(first), t.keys.Log(last+1))); err != nil {
			return err
		}
	}
}

// sweep removes every folder of chunks but the present one.
func (t *tenure) sweep(ctx context.Context, present pointerValue, pointer Pair) error {
	here := t.keys.Chunks(present.Batch, present.Epoch)
	from, end := t.keys.Prefix+"snap/", t.keys.Prefix+"snap0"
	for {
		page, err := t.page(ctx, Query{From: from, To: end, Limit: 1, KeysOnly: true})
		if err != nil || len(page.Pairs) == 0 {
			return err
		}
		folder, ours := t.keys.folderOf(page.Pairs[0].Key)
		switch {
		case !ours:
			from = page.Pairs[0].Key + "\x00"
			continue
		case folder != here:
			if err := t.remove(ctx, WhatSweep, pointer, drop(folder, t.keys.ChunksEnd(folder))); err != nil {
				return err
			}
		}
		from = t.keys.ChunksEnd(folder)
	}
}

func (t *tenure) remove(ctx context.Context, what What, pointer Pair, op Op) error {
	res, err := t.txn(ctx, Txn{
		What: what,
		If:   append(t.mine(), at(pointer)),
		Then: []Op{op},
		Else: []Op{get(t.keys.Tenure())},
	})
	if err == nil && !res.OK {
		if err = t.inForce(res.Gets[0]); err == nil {
			err = fmt.Errorf("%w: the snapshot's key is not as it was published", store.ErrRolledBack)
		}
	}
	return err
}
