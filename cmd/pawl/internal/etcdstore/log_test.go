package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/store"
)

// log appends batches that carry their number.
type log struct {
	ten  store.Tenure
	last uint64
	sum  []byte
	// replayed is where the tenure found the log's end.
	replayed uint64
}

func batch(ten store.Tenure, n uint64, sum []byte, pad int) (raw, next []byte) {
	nonce := ten.Nonce()
	return seal(ten.Epoch(), nonce, n, sum, pad)
}

func seal(epoch uint64, nonce store.Nonce, n uint64, sum []byte, pad int) (raw, next []byte) {
	raw, s, err := store.SealBatch(&recordpb.Batch{
		Epoch: epoch, Number: n, Previous: sum, Durable: n - 1, Nonce: nonce[:],
		Events: []*recordpb.Event{{Kind: recordpb.Kind_KIND_FLOOR, Token: n, Label: string(make([]byte, pad))}},
	})
	if err != nil {
		panic(err)
	}
	return raw, s[:]
}

// node is a store that knows its node, embedded or not.
type node interface {
	store.Store
	NodeID() [16]byte
}

// begin claims, replays, checks that every batch carries its number, and opens.
func begin(ctx context.Context, s node, nonce byte) (*log, error) {
	l := &log{}
	var err error
	l.ten, err = s.Claim(ctx, store.Node{ID: s.NodeID()}, store.Nonce{nonce}, func(epoch uint64, nonce store.Nonce) []byte {
		raw, sum := seal(epoch, nonce, 1, nil, 0)
		l.last, l.sum = 1, sum
		return raw
	})
	if err != nil || l.ten.Opened() {
		return l, err
	}
	if err := insist(ctx, func() error { return l.replay(ctx) }); err != nil {
		return nil, err
	}
	raw, sum := batch(l.ten, l.replayed+1, l.sum, 0)
	if err := insist(ctx, func() error { return l.ten.Open(ctx, l.replayed+1, raw) }); err != nil {
		return nil, err
	}
	l.last, l.sum = l.replayed+1, sum
	return l, nil
}

// replay reads the log and checks that every batch carries its number.
func (l *log) replay(ctx context.Context) error {
	l.last, l.sum = 0, nil
	chunk := func(n uint64, raw []byte) error {
		c, _, err := store.OpenChunk(raw)
		if err == nil {
			l.last, l.sum = n, c.Previous
		}
		return err
	}
	head, err := l.ten.Replay(ctx, chunk, func(n uint64, raw []byte) error {
		b, sum, err := store.OpenBatch(raw)
		if err == nil && b.Events[0].Token != n {
			err = fmt.Errorf("batch %d carries %d", n, b.Events[0].Token)
		}
		l.last, l.sum = n, sum[:]
		return err
	})
	l.replayed = head
	return err
}

// triesMax bounds how often something is insisted on.
const triesMax = 20

// insist tries again what ended in a way that says nothing, such as a time-out
// on a busy machine, as the users of a store do.
func insist(ctx context.Context, try func() error) (err error) {
	for range triesMax {
		err = try()
		if err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrFull) || final(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// land appends and insists.
func (l *log) land(ctx context.Context, pad int) error {
	return insist(ctx, func() error { return l.append(ctx, pad) })
}

func (l *log) append(ctx context.Context, pad int) error {
	raw, sum := batch(l.ten, l.last+1, l.sum, pad)
	if err := l.ten.Append(ctx, l.last+1, raw); err != nil {
		return err
	}
	l.last, l.sum = l.last+1, sum
	return nil
}

// snapshot takes one of a single chunk.
func (l *log) snapshot(ctx context.Context) error {
	raw, _, err := store.SealChunk(&recordpb.Chunk{Number: l.last, Previous: l.sum, Last: true})
	if err != nil {
		return err
	}
	return l.ten.Snapshot(ctx, l.last, func(yield func([]byte) bool) { yield(raw) })
}

func mustBegin(t testing.TB, s node, nonce byte) *log {
	t.Helper()
	l, err := begin(t.Context(), s, nonce)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustAppend(t testing.TB, l *log, count int) {
	t.Helper()
	for range count {
		if err := l.land(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
}
