package kvlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// claimant is one call of Claim.
type claimant struct {
	*Store
	self  store.Node
	nonce store.Nonce
	first func(uint64, store.Nonce) []byte
	timer clock.Timer
	wait  patience
	// silent: the last look failed, and that was logged.
	silent bool
	// hasty: the active server's member is gone, and its silence is not long enough yet.
	hasty bool
	// other is the tenure whose ActiveTTL was last said to differ.
	other int64
}

// situation is what one look at the store shows.
type situation struct {
	tenure, beat, pointer Pair
	value                 tenureValue
	// tail is the last batch, and foreign what lies among the batches and is
	// none of ours; both are looked for only where there is no tenure.
	tail    Pair
	foreign []string
}

// foreignMax bounds the foreign keys that a new cell is founded around.
const foreignMax = 32

// Claim waits for its turn and swaps itself in. While the store does not answer
// it goes on trying until ctx ends.
func (s *Store) Claim(ctx context.Context, self store.Node, nonce store.Nonce, first func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	c := claimant{Store: s, self: self, nonce: nonce, first: first, timer: s.opts.Clock.NewTimer()}
	defer c.timer.Stop()
	t, err := c.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim the tenure: %w", err)
	}
	return t, nil
}

func (c *claimant) run(ctx context.Context) (*tenure, error) {
	for {
		t, err := c.try(ctx)
		if t != nil {
			return t, nil
		}
		if final(err) {
			return nil, err
		}
		c.note(ctx, err)
		if ctx.Err() != nil || !sleep(ctx, c.timer, c.pace()) {
			return nil, context.Cause(ctx)
		}
	}
}

// note logs that the store stopped answering, once.
func (c *claimant) note(ctx context.Context, err error) {
	if err == nil {
		c.silent = false
		return
	}
	c.wait.miss(c.opts.Clock.Now())
	if !c.silent && ctx.Err() == nil {
		c.silent = true
		c.opts.Logger.Warn("the store does not answer; trying on", "error", err)
	}
}

func (c *claimant) pace() time.Duration {
	if c.hasty {
		return hastyPace
	}
	return min(c.opts.ActiveTTL/10, paceMax)
}

// try looks once and, when it is this node's turn, swaps itself in. Neither a
// tenure nor an error: not yet.
func (c *claimant) try(ctx context.Context) (*tenure, error) {
	now, err := c.readState(ctx)
	if err != nil || !c.turn(now) {
		return nil, err
	}
	if now.tenure.Rev == 0 && now.tail.Rev == 0 && now.pointer.Rev == 0 {
		return c.found(ctx, now.foreign)
	}
	return c.succeed(ctx, now)
}

func (c *claimant) readState(ctx context.Context) (situation, error) {
	var now situation
	res, err := c.txn(ctx, Txn{What: WhatRead, Then: []Op{get(c.keys.Tenure()), get(c.keys.Beat()), get(c.keys.Snapshot())}})
	if err != nil {
		return now, err
	}
	now.tenure, now.beat, now.pointer = res.Gets[0], res.Gets[1], res.Gets[2]
	if now.tenure.Rev == 0 {
		now.tail, now.foreign, err = c.tail(ctx)
		return now, err
	}
	now.value, err = decodeTenure(now.tenure.Value)
	return now, err
}

// tail finds the last batch of a log whose tenure was deleted in the store. Such a cell
// goes on with the next epoch; if the log is not whole, replay reports what is missing.
func (c *claimant) tail(ctx context.Context) (last Pair, foreign []string, err error) {
	for from, more := c.keys.Log(0), true; more; {
		page, err := c.page(ctx, Query{From: from, To: c.keys.LogEnd(), Limit: 1000, KeysOnly: true})
		if err != nil {
			return Pair{}, nil, err
		}
		for _, p := range page.Pairs {
			from = p.Key + "\x00"
			if _, ours := c.keys.logNumber(p.Key); ours {
				last = p
			} else {
				foreign = append(foreign, p.Key)
			}
		}
		more = page.More
	}
	if last.Rev == 0 {
		if len(foreign) > foreignMax {
			err = fmt.Errorf("%w: %d keys that are none of ours, %q the first, lie where a new cell's batches belong; remove them", store.ErrDamaged, len(foreign), foreign[0])
		}
		return Pair{}, foreign, err
	}
	res, err := c.txn(ctx, Txn{What: WhatRead, Then: []Op{get(last.Key)}})
	if err != nil {
		return Pair{}, nil, err
	}
	return res.Gets[0], foreign, nil
}

// noLog is the condition that there is no batch, around keys of others.
func (c *claimant) noLog(foreign []string) []Cond {
	var none []Cond
	from := c.keys.Log(0)
	for _, key := range foreign {
		if from != key {
			none = append(none, noneIn(from, key))
		}
		from = key + "\x00"
	}
	return append(none, noneIn(from, c.keys.LogEnd()))
}

func (c *claimant) turn(now situation) bool {
	switch {
	case now.tenure.Rev == 0, now.value.node() == store.Node{}:
		return true
	case (c.opts.Sole || c.resumes()) && now.value.node().ID == c.self.ID:
		return true
	case now.tenure.Rev != 0 && bytes.Equal(now.tenure.Value, c.left()):
		return true
	}
	waited := c.wait.observe(c.opts.Clock.Now(), now.tenure.Rev, now.beat.Rev)
	return waited >= c.patience(now) || c.hastens(now, waited)
}

// patience is how long a claimant waits without a sign of life of the active server:
// that server's ActiveTTL, by which it knows when its tenure is over. Earlier versions
// did not state it; then it is this server's own.
func (c *claimant) patience(now situation) time.Duration {
	theirs, mine := time.Duration(now.value.ActiveTTL), c.opts.ActiveTTL
	if theirs == 0 || theirs == mine {
		return mine
	}
	if c.other != now.tenure.Rev {
		c.other = now.tenure.Rev
		c.opts.Logger.Warn("the active server has another --active-ttl; a take-over from it waits for that one",
			"epoch", now.value.Epoch, "its", theirs, "mine", mine)
	}
	return theirs
}

// found makes a fresh cell: tenure and first batch in one step, so that a
// tenure without a log can only be damage.
func (c *claimant) found(ctx context.Context, foreign []string) (*tenure, error) {
	const epoch = 1
	batch := c.first(epoch, c.nonce)
	if err := fits(1, batch); err != nil {
		return nil, err
	}
	value := c.tenureOf(epoch, c.self, c.nonce)
	t, err := c.swap(ctx, epoch, value, Txn{
		What: WhatFresh,
		If:   append(c.noLog(foreign), absent(c.keys.Tenure()), absent(c.keys.Snapshot())),
		Then: []Op{put(c.keys.Tenure(), value), put(c.keys.Log(1), batch)},
	})
	if t != nil {
		t.opened = true
		t.opensAt(1, t.rev)
	}
	return t, err
}

// succeed swaps this node in after the last tenure.
func (c *claimant) succeed(ctx context.Context, now situation) (*tenure, error) {
	last, err := lastEpoch(now)
	if err != nil {
		return nil, err
	}
	value := c.tenureOf(last+1, c.self, c.nonce)
	unchanged := []Cond{at(now.tenure), at(now.beat)}
	if now.tenure.Rev == 0 {
		unchanged = []Cond{at(now.tenure), at(now.pointer)}
		if now.tail.Rev != 0 {
			unchanged = append(unchanged, at(now.tail))
		}
	} else {
		unchanged = append(unchanged, holds(now.tenure.Key, now.tenure.Value))
	}
	t, err := c.swap(ctx, last+1, value, Txn{
		What: WhatClaim,
		If:   unchanged,
		Then: []Op{put(c.keys.Tenure(), value)},
	})
	if t != nil && now.tenure.Rev == 0 {
		c.opts.Logger.Error("the cell's tenure was deleted; its log is there and goes on", "key", c.keys.Tenure(), "epoch", last+1)
	}
	return t, err
}

func lastEpoch(now situation) (uint64, error) {
	if now.tenure.Rev != 0 {
		return now.value.Epoch, nil
	}
	pointer, err := decodePointer(now.pointer)
	if err != nil || now.tail.Rev == 0 {
		return pointer.Epoch, err
	}
	head, err := store.HeaderOf(now.tail.Value)
	if err != nil {
		return 0, fmt.Errorf("read the last batch %s: %w", now.tail.Key, err)
	}
	return max(pointer.Epoch, head.Epoch), nil
}

// swap tries t until its outcome is known. Neither a tenure nor an error:
// somebody was quicker.
func (c *claimant) swap(ctx context.Context, epoch uint64, value []byte, t Txn) (*tenure, error) {
	t.Else = []Op{get(c.keys.Tenure())}
	sent := c.opts.Clock.Now()
	for {
		res, err := c.txn(ctx, t)
		switch {
		case err == nil && res.OK:
			return newTenure(c.Store, epoch, c.nonce, value, res.Rev, sent), nil
		case err == nil && bytes.Equal(res.Gets[0].Value, value):
			return newTenure(c.Store, epoch, c.nonce, value, res.Gets[0].Rev, sent), nil
		case err == nil:
			return nil, nil
		case errors.Is(err, store.ErrFull):
			// It did not land. Signs of life were refused likewise and count again
			// once there is room.
			c.wait = patience{}
			return nil, err
		case final(err):
			return nil, err
		}
		c.note(ctx, err)
		if ctx.Err() != nil || !sleep(ctx, c.timer, c.pace()) {
			return nil, context.Cause(ctx)
		}
	}
}

func fits(n uint64, raw []byte) error {
	if len(raw) == 0 || len(raw) > store.BatchMax {
		return fmt.Errorf("batch %d: %d bytes, and 1 … %d are allowed", n, len(raw), store.BatchMax)
	}
	return nil
}
