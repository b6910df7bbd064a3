package faulty

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

var (
	// ErrLost is the error of a call whose answer was lost.
	ErrLost = errors.New("faulty: no answer")
	// ErrCrashed is the error of every call after Crash.
	ErrCrashed = errors.New("faulty: this server has crashed")
)

// Fault is what becomes of a transaction. The zero Fate is a good one.
type Fault struct {
	// Delay passes before it reaches the store; two delayed by different times
	// arrive in the other order.
	Delay time.Duration
	// Refuse, when not nil, is answered in place of the store, which never sees
	// the transaction.
	Refuse error
	// LoseAnswer loses the answer: the transaction took effect, ErrLost is returned.
	LoseAnswer bool
}

// Link is one server's way to a store. Safe for use by several goroutines.
type Link struct {
	kv      kvlog.KV
	clk     clock.Clock
	journal *Journal

	mu      sync.Mutex
	plan    func(kvlog.Txn) Fault
	crash   context.Context
	crashed context.CancelCauseFunc
	stalled chan struct{}
}

var _ kvlog.KV = (*Link)(nil)

// NewLink returns a good way to kv; journal, when it is not nil, takes in every
// write sent.
func NewLink(kv kvlog.KV, clk clock.Clock, journal *Journal) *Link {
	l := &Link{kv: kv, clk: clk, journal: journal}
	l.crash, l.crashed = context.WithCancelCause(context.Background())
	return l
}

// Plan has every further transaction's fate decided by f, which must not call
// the link; nil: all are good.
func (l *Link) Plan(f func(kvlog.Txn) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = f
}

// Crash ends the server: what is on its way and has not reached the store never
// does, and every call fails.
func (l *Link) Crash() { l.crashed(ErrCrashed) }

// Stall holds every further call before it reaches the store, as a stopped
// process would.
func (l *Link) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled == nil {
		l.stalled = make(chan struct{})
	}
}

// Resume lets go what Stall held.
func (l *Link) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled != nil {
		close(l.stalled)
		l.stalled = nil
	}
}

// Txn passes t on as its fate wants it.
func (l *Link) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	l.mu.Lock()
	plan := l.plan
	l.mu.Unlock()
	var fate Fault
	if plan != nil {
		fate = plan(t)
	}
	if l.journal != nil && t.Writes() {
		l.journal.add(t)
	}
	if err := l.pass(ctx, fate.Delay); err != nil {
		return kvlog.Result{}, err
	}
	if fate.Refuse != nil {
		return kvlog.Result{}, fate.Refuse
	}
	res, err := l.kv.Txn(ctx, t)
	switch {
	case l.crash.Err() != nil:
		return kvlog.Result{}, ErrCrashed
	case fate.LoseAnswer:
		return kvlog.Result{}, ErrLost
	}
	return res, err
}

// Range passes q on.
func (l *Link) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	if err := l.pass(ctx, 0); err != nil {
		return kvlog.Page{}, err
	}
	page, err := l.kv.Range(ctx, q)
	if l.crash.Err() != nil {
		return kvlog.Page{}, ErrCrashed
	}
	return page, err
}

// Compact passes it on.
func (l *Link) Compact(ctx context.Context, rev int64) error {
	if err := l.pass(ctx, 0); err != nil {
		return err
	}
	return l.kv.Compact(ctx, rev)
}

// Usage passes it on.
func (l *Link) Usage(ctx context.Context) (store.Usage, error) {
	if err := l.pass(ctx, 0); err != nil {
		return store.Usage{}, err
	}
	return l.kv.Usage(ctx)
}

// pass returns when a call may reach the store.
func (l *Link) pass(ctx context.Context, delay time.Duration) error {
	if delay > 0 {
		timer := l.clk.NewTimer()
		defer timer.Stop()
		timer.Reset(delay)
		select {
		case <-timer.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.crash.Done():
		}
	}
	for {
		l.mu.Lock()
		stalled := l.stalled
		l.mu.Unlock()
		if l.crash.Err() != nil {
			return ErrCrashed
		}
		if stalled == nil {
			return ctx.Err()
		}
		select {
		case <-stalled:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.crash.Done():
		}
	}
}

// Journal holds every write that the links of one store sent, landed or not.
type Journal struct {
	mu   sync.Mutex
	sent []kvlog.Txn
}

func (j *Journal) add(t kvlog.Txn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent = append(j.sent, t)
}

// Len is how many writes were sent so far.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.sent)
}

// At returns the write sent as the i-th, from 0.
func (j *Journal) At(i int) kvlog.Txn {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent[i]
}
