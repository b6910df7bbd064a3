package kvlog

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pawlproject/pawl/internal/store"
)

// Open cuts what lies behind the head and lands the opening batch, in one step.
func (t *tenure) Open(ctx context.Context, n uint64, batch []byte) error {
	t.mu.Lock()
	over, head, durable := t.over, t.head, t.durable
	t.mu.Unlock()
	switch {
	case over != nil:
		return over
	case t.opened || durable != 0 && durable != n:
		return fmt.Errorf("open with batch %d: the tenure is open", n)
	case head == nil || n != head.number+1:
		return fmt.Errorf("open with batch %d: not the one after a replayed head", n)
	}
	if err := fits(n, batch); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	rev, err := t.land(ctx, n, batch, Txn{
		What: WhatOpen,
		If:   append(t.mine(), head.at, absent(t.keys.Log(n))),
		Then: []Op{drop(t.keys.Log(n+1), t.keys.LogEnd()), put(t.keys.Log(n), batch)},
	})
	if err != nil {
		return t.end(fmt.Errorf("open with batch %d: %w", n, err))
	}
	t.opensAt(n, rev)
	return nil
}

// opensAt takes in that the opening batch landed.
func (t *tenure) opensAt(n uint64, rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.durable == 0 {
		t.opening, t.durable = n, n
		t.revs[n%store.InFlight] = rev
	}
}

// Append lands batch n.
func (t *tenure) Append(ctx context.Context, n uint64, batch []byte) error {
	t.mu.Lock()
	over, d, tail := t.over, t.durable, t.tail()
	if _, again := t.follows[n]; !again && d != 0 && n > d && n <= d+store.InFlight {
		t.follows[n] = d
	}
	t.mu.Unlock()
	switch {
	case over != nil:
		return over
	case d == 0:
		return fmt.Errorf("append batch %d: the tenure is not open", n)
	case n <= d:
		return nil
	case n > d+store.InFlight:
		return fmt.Errorf("append batch %d: %d is durable and at most %d may be in flight", n, d, store.InFlight)
	}
	if err := fits(n, batch); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	rev, err := t.land(ctx, n, batch, Txn{
		What: WhatAppend,
		If:   append(append(t.mine(), absent(t.keys.Log(n))), tail...),
		Then: []Op{put(t.keys.Log(n), batch)},
	})
	if err != nil {
		return t.end(fmt.Errorf("append batch %d: %w", n, err))
	}
	t.lands(n, rev)
	return nil
}

// lands takes in that batch n lies at rev, and moves the durable end.
func (t *tenure) lands(n uint64, rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n <= t.durable {
		return
	}
	t.landed[n] = rev
	for {
		rev, ok := t.landed[t.durable+1]
		if !ok {
			return
		}
		delete(t.follows, t.durable)
		t.durable++
		t.revs[t.durable%store.InFlight] = rev
		delete(t.landed, t.durable)
	}
}

// land sends the put of batch n and reads its outcome. When a condition failed, there
// are three cases: another tenure is in force; an earlier try of mine had landed; or
// the store has lost something that it acknowledged.
func (t *tenure) land(ctx context.Context, n uint64, batch []byte, put Txn) (int64, error) {
	put.Else = []Op{get(t.keys.Tenure()), get(t.keys.Log(n))}
	res, err := t.txn(ctx, put)
	switch {
	case err != nil:
		return 0, err
	case res.OK:
		return res.Rev, nil
	}
	if err := t.inForce(res.Gets[0]); err != nil {
		return 0, err
	}
	entry := res.Gets[1]
	if entry.Rev == 0 {
		return 0, fmt.Errorf("%w: what batch %d follows is not as it was acknowledged", store.ErrRolledBack, n)
	}
	head, err := store.HeaderOf(entry.Value)
	if err != nil {
		return 0, fmt.Errorf("batch %d: %w", n, err)
	}
	if put.What == WhatAppend && head.Epoch < t.epoch {
		// This tenure's opening cut it away.
		return 0, fmt.Errorf("%w: batch %d is in the store, of epoch %d, and was cut when this tenure was opened", store.ErrRolledBack, n, head.Epoch)
	}
	if head.Mark != (store.Mark{Epoch: t.epoch, Number: n, Nonce: t.nonce}) || !bytes.Equal(entry.Value, batch) {
		return 0, fmt.Errorf("%w: batch %d is in the store, of epoch %d, and is not the one of this tenure", store.ErrDamaged, n, head.Epoch)
	}
	return entry.Rev, nil
}
