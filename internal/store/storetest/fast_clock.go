package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// fastClockFactor is how much faster a fast clock runs.
const fastClockFactor = 50

// fastClock is a server whose clock runs too fast until it has a tenure, so that it
// takes over from one that has not given itself up.
type fastClock struct {
	clock.Clock
	store *kvlog.Store

	mu     sync.Mutex
	normal bool
	last   clock.Reading
	ahead  time.Duration
}

// Now is the time plus what the clock has run ahead.
func (h *fastClock) Now() clock.Reading {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Clock.Now()
	if !h.normal {
		h.ahead += (fastClockFactor - 1) * now.Shorter(h.last)
	}
	h.last = now
	return now.Add(h.ahead)
}

// Claim is the store's.
func (h *fastClock) Claim(ctx context.Context, self store.Node, nonce store.Nonce, first func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	t, err := h.store.Claim(ctx, self, nonce, first)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.normal = err == nil
	return t, err
}

// Active is the store's.
func (h *fastClock) Active(ctx context.Context) (store.Node, error) { return h.store.Active(ctx) }

// Follow is the store's.
func (h *fastClock) Follow(ctx context.Context, from store.Position, chunk, batch func(n uint64, b []byte) error) error {
	return h.store.Follow(ctx, from, chunk, batch)
}
