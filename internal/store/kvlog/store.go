package kvlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// Options of a Store. The zero value of every field but Clock is usable.
type Options struct {
	Clock clock.Clock
	// Prefix of every key.
	Prefix string
	// ActiveTTL is how long standbys wait, on their own usable-time clocks, for a sign
	// of life of this server once it is active; it writes ten in that time. They read
	// it from the tenure, and wait for their own where an earlier version left it out.
	// 0 means store.ActiveTTLDefault.
	ActiveTTL time.Duration
	// Sole: no other server can reach the store. No sign of life is given, and
	// a tenure that this node left behind is taken over at once.
	Sole bool
	// Resumes: a tenure that an earlier process of this node left behind is taken
	// over at once, by the first claim here: something outside the store shows
	// that no such process runs. A reason for haste, never evidence; and only
	// once, so that two servers that were given one node do not go on deposing
	// each other.
	Resumes bool
	// Members: the store's members are inside the servers; nil: they are elsewhere.
	Members Members
	// Beside runs what gives signs of life beside everything else; nil: in a
	// goroutine. A simulator runs it in a time of its own.
	Beside func(f func())
	// Logger for what an operator should know; nil: none.
	Logger *slog.Logger
}

// Store is a store.Store on a KV. Safe for use by several goroutines.
type Store struct {
	kv     KV
	opts   Options
	keys   Keys
	closed context.Context
	close  context.CancelFunc
	beats  sync.WaitGroup

	mu   sync.Mutex
	seen Seen
	// silenced is the last tenure that ended here in silence. It need not be
	// waited for: nobody but this node served it.
	silenced []byte
	// claimed: a tenure has begun here.
	claimed bool
	// serving is the epoch of the tenure here that is not over as far as this server
	// knows; 0: none.
	serving atomic.Uint64
}

var _ store.Store = (*Store)(nil)

// New returns a store on kv, which it does not close.
func New(kv KV, opts Options) *Store {
	if opts.ActiveTTL <= 0 {
		opts.ActiveTTL = store.ActiveTTLDefault
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{kv: kv, opts: opts, keys: Keys{Prefix: opts.Prefix}}
	if s.opts.Beside == nil {
		s.opts.Beside = s.beats.Go
	}
	s.closed, s.close = context.WithCancel(context.Background())
	return s
}

// Close stops the signs of life of every tenure begun here; a standby then
// waits for the rest of the time. It ends no tenure.
func (s *Store) Close() {
	s.close()
	s.beats.Wait()
}

// Serving reports whether a tenure has begun here that is not over, as far as this
// server knows.
func (s *Store) Serving() bool { return s.serving.Load() != 0 }

// Active names the server whose tenure is in force.
func (s *Store) Active(ctx context.Context) (store.Node, error) {
	res, err := s.txn(ctx, Txn{What: WhatRead, Then: []Op{get(s.keys.Tenure())}})
	if err != nil {
		return store.Node{}, fmt.Errorf("read the tenure: %w", err)
	}
	if res.Gets[0].Rev == 0 {
		return store.Node{}, nil
	}
	v, err := decodeTenure(res.Gets[0].Value)
	if err != nil {
		return store.Node{}, err
	}
	return v.node(), nil
}

func (s *Store) txn(ctx context.Context, t Txn) (Result, error) {
	before := s.lastSeen()
	res, err := s.kv.Txn(ctx, t)
	if err == nil {
		err = s.compare(before, res.Seen)
	}
	return res, err
}

func (s *Store) page(ctx context.Context, q Query) (Page, error) {
	before := s.lastSeen()
	page, err := s.kv.Range(ctx, q)
	if err == nil {
		err = s.compare(before, page.Seen)
	}
	return page, err
}

func (s *Store) lastSeen() Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// compare checks an answer against what was seen before its request was sent: a
// linearizable store never shows less. After reporting a roll-back it goes on from the
// present state, so that a later claim can start from there.
func (s *Store) compare(before, now Seen) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case before.Rev != 0 && now.Cluster != before.Cluster:
		s.seen = now
		return fmt.Errorf("%w: the store is another one, %x where it was %x", store.ErrRolledBack, now.Cluster, before.Cluster)
	case now.Rev < before.Rev:
		s.seen = now
		return fmt.Errorf("%w: the store is at revision %d and was at %d", store.ErrRolledBack, now.Rev, before.Rev)
	case now.Rev > s.seen.Rev:
		s.seen = now
	}
	return nil
}

// final reports an error that trying again cannot mend.
func final(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRolledBack) || errors.Is(err, store.ErrDamaged)
}

// resumes reports whether this node's own last tenure is one of an earlier
// process.
func (s *Store) resumes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.Resumes && !s.claimed
}

// sleep waits for d on the store's clock; false when ctx ended first.
func sleep(ctx context.Context, timer clock.Timer, d time.Duration) bool {
	timer.Reset(d)
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
