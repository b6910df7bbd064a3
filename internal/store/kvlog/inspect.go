package kvlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"

	"github.com/pawlproject/pawl/internal/store"
)

// FoundKind says what a Found is.
type FoundKind string

// What lies below a cell's prefix.
const (
	FoundTenure  FoundKind = "tenure"
	FoundBeat    FoundKind = "beat"
	FoundPointer FoundKind = "snapshot"
	FoundBatch   FoundKind = "batch"
	FoundChunk   FoundKind = "chunk"
	// FoundForeign is none of ours.
	FoundForeign FoundKind = "foreign"
	// FoundMissing is what should be there.
	FoundMissing FoundKind = "missing"
)

// Found is one key of a cell, and what there is to say about it.
type Found struct {
	Kind FoundKind
	Pair
	// Number of a batch; of a chunk, the batch after which its snapshot was taken.
	Number uint64
	// Damage is store.ErrDamaged with what does not fit; nil when all does.
	Damage error
	// Note is what is unusual and no damage.
	Note string
}

// Inspect visits all that lies below a prefix as it is at one revision: tenure,
// sign of life and snapshot's key first, then the batches, then the chunks. It
// claims nothing, only reads, and goes on behind damage. An error is the store's
// or of visit.
func Inspect(ctx context.Context, kv KV, prefix string, visit func(Found) error) error {
	keys := Keys{Prefix: prefix}
	reads := []Op{get(keys.Tenure()), get(keys.Beat()), get(keys.Snapshot())}
	res, err := kv.Txn(ctx, Txn{What: WhatRead, Then: reads})
	if err != nil {
		return err
	}
	i := inspection{kv: kv, keys: keys, at: res.Rev, visit: visit}
	if err := i.heads(res.Gets); err != nil {
		return err
	}
	from, to := keys.Range()
	if err := i.each(ctx, from, to); err != nil {
		return err
	}
	return i.missing()
}

// inspection is one walk over all there is.
type inspection struct {
	kv    KV
	keys  Keys
	at    int64
	visit func(Found) error

	tenure Pair
	snap   pointerValue
	folder string

	// last is the number of the batch before, sum and epoch are its own; sum is
	// nil where that one did not read.
	last  uint64
	sum   []byte
	epoch uint64
	// chunks of the present snapshot so far, and their sums.
	chunks int
	sums   hash.Hash
}

// heads visits the keys that there is one of.
func (i *inspection) heads(gets []Pair) error {
	var err error
	tell := func(kind FoundKind, p Pair, damage error) {
		if err == nil && p.Rev != 0 {
			err = i.visit(Found{Kind: kind, Pair: p, Damage: damage})
		}
	}
	i.tenure, i.sums = gets[0], sha256.New()
	_, damage := decodeTenure(i.tenure.Value)
	tell(FoundTenure, i.tenure, damage)
	tell(FoundBeat, gets[1], nil)
	i.snap, damage = decodePointer(gets[2])
	tell(FoundPointer, gets[2], damage)
	if damage != nil {
		i.snap = pointerValue{}
	}
	if i.snap.Batch != 0 {
		i.folder = i.keys.Chunks(i.snap.Batch, i.snap.Epoch)
	}
	return err
}

func (i *inspection) each(ctx context.Context, from, to string) error {
	limit := pageMin
	for more := true; more; {
		page, err := i.kv.Range(ctx, Query{From: from, To: to, Rev: i.at, Limit: limit})
		if err != nil {
			return fmt.Errorf("read on at %s: %w", from, err)
		}
		for _, p := range page.Pairs {
			from = p.Key + "\x00"
			if p.Key == i.keys.Tenure() || p.Key == i.keys.Beat() || p.Key == i.keys.Snapshot() {
				continue
			}
			if err := i.visit(i.classify(p)); err != nil {
				return err
			}
		}
		more, limit = page.More, nextPage(limit, page)
	}
	return nil
}

func (i *inspection) classify(p Pair) Found {
	if n, ours := i.keys.logNumber(p.Key); ours && n > 0 {
		return i.batch(p, n)
	}
	if folder, ours := i.keys.folderOf(p.Key); ours {
		return i.chunk(p, folder)
	}
	return Found{Kind: FoundForeign, Pair: p, Note: "none of the cell's"}
}

func (i *inspection) batch(p Pair, n uint64) Found {
	f := Found{Kind: FoundBatch, Pair: p, Number: n}
	h, err := store.HeaderOf(p.Value)
	if err == nil {
		err = i.follows(h, n, &f.Note)
	}
	if err != nil {
		f.Damage = fmt.Errorf("batch %d: %w", n, err)
	}
	i.last, i.epoch, i.sum = n, max(i.epoch, h.Epoch), nil
	if err == nil {
		i.sum = h.Sum[:]
	}
	return f
}

// follows holds a batch against what was before it and against the snapshot.
func (i *inspection) follows(h store.Header, n uint64, note *string) error {
	damaged := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{store.ErrDamaged}, a...)...)
	}
	switch {
	case h.Number != n:
		return damaged("it says that it is batch %d", h.Number)
	case h.Durable >= n:
		return damaged("it says that batch %d was durable before it", h.Durable)
	case n == i.snap.Batch && !bytes.Equal(h.Sum[:], i.snap.Sum):
		return damaged("it is not the one that the snapshot follows")
	case n == i.last+1 && i.sum != nil && !bytes.Equal(h.Previous, i.sum):
		return damaged("it does not follow the one before it")
	case n == i.last+1 && h.Epoch < i.epoch:
		return damaged("it is of epoch %d, after one of epoch %d", h.Epoch, i.epoch)
	case n == i.snap.Batch+1 && n != i.last+1 && !bytes.Equal(h.Previous, i.snap.Sum):
		return damaged("it does not follow the one that the snapshot follows")
	}
	// What lies before the snapshot is there as long as it is of use; what is
	// missing behind it was durable or was never acknowledged.
	missing := max(i.last, i.snap.Batch) + 1
	if n <= missing {
		return nil
	}
	if known := max(h.Durable, n-min(n, store.InFlight)); missing <= known {
		return damaged("batch %d is missing before it, and was durable", missing)
	}
	*note = fmt.Sprintf("batch %d is missing before it; this one was not acknowledged, and the next tenure cuts it", missing)
	return nil
}

func (i *inspection) chunk(p Pair, folder string) Found {
	f := Found{Kind: FoundChunk, Pair: p}
	h, err := store.ChunkHeaderOf(p.Value)
	f.Number = h.Number
	switch {
	case folder != i.folder:
		f.Note = "of a snapshot that nothing points at"
		return f
	case err == nil && p.Key != i.keys.Chunk(folder, i.chunks):
		err = fmt.Errorf("%w: chunk %d is missing before it", store.ErrDamaged, i.chunks)
	case err == nil:
		if err = chunkFits(h, i.snap.Batch, i.snap.Sum, i.chunks); err != nil {
			err = fmt.Errorf("%w: it %w", store.ErrDamaged, err)
		}
	}
	if err != nil {
		f.Damage = fmt.Errorf("the snapshot after batch %d, %s: %w", i.snap.Batch, strings.TrimPrefix(p.Key, folder), err)
	}
	i.sums.Write(h.Sum[:])
	i.chunks++
	return f
}

// missing tells what is not there and should be.
func (i *inspection) missing() error {
	tell := func(format string, a ...any) error {
		return i.visit(Found{Kind: FoundMissing, Damage: fmt.Errorf("%w: "+format, append([]any{store.ErrDamaged}, a...)...)})
	}
	switch {
	case i.chunks != i.snap.Chunks:
		return tell("the snapshot after batch %d has %d chunks and %d are there", i.snap.Batch, i.snap.Chunks, i.chunks)
	case i.snap.Chunks > 0 && !bytes.Equal(i.sums.Sum(nil), i.snap.ChunksSum):
		return tell("the snapshot after batch %d is not the one that was written", i.snap.Batch)
	case i.tenure.Rev != 0 && i.last == 0 && i.snap.Batch == 0:
		return tell("there is a tenure and no log")
	case i.tenure.Rev == 0 && (i.last != 0 || i.snap.Batch != 0):
		return tell("there is a log and no tenure")
	}
	if v, err := decodeTenure(i.tenure.Value); err == nil && v.Epoch < i.epoch {
		return tell("the tenure is of epoch %d and batch %d of epoch %d", v.Epoch, i.last, i.epoch)
	}
	return nil
}
