package cell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// Run claims tenures and serves them until ctx ends; then it resigns and
// returns nil. Any other end is an error: store.ErrDamaged, store.ErrRolledBack,
// or what the store said.
func (c *Cell) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.serveTenure(ctx)
		switch {
		case ctx.Err() != nil && !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrRolledBack):
			return nil
		case errors.Is(err, store.ErrFenced):
			c.o.Logger.Warn("claiming the next tenure", "after", c.Info().Epoch, "error", err)
		default:
			return err
		}
	}
	return nil
}

// serveTenure claims one tenure and serves it to its end.
func (c *Cell) serveTenure(ctx context.Context) error {
	var nonce store.Nonce
	rand.Read(nonce[:])
	var fresh *core
	first := func(epoch uint64, nonce store.Nonce) []byte {
		fresh = newCore(locktable.New(c.o.Limits), epoch, nonce)
		var secret [32]byte
		rand.Read(secret[:])
		fresh.table.Found(cmp.Or(c.o.CellID, NewID(c.o.Name)), secret[:], &fresh.decided)
		return fresh.opening(c.o.Clock.Wall(), c.o.TokenFloor)
	}
	t, err := c.claim(ctx, nonce, first)
	if err != nil {
		return fmt.Errorf("claim a tenure: %w", err)
	}
	l := &loop{cell: c, store: t, clock: c.o.Clock}
	start := l.clock.Now()
	if t.Opened() {
		l.core = fresh
	} else if l.core, l.growth, err = c.takeOver(ctx, t); err != nil {
		return errors.Join(err, l.resign())
	}
	if c.o.Ended != nil {
		l.core.table.ReportEnds(&endReceiver{c.o.Ended})
	}
	if t.Opened() {
		c.logLostCell(l.core.table.Cell())
	}
	l.core.begun(l.clock.Now())
	c.stats.Tenures.Add(1)
	c.o.Logger.Info("serving", "cell", l.core.table.Cell(), "epoch", t.Epoch(), "token", l.core.table.Counts().Counter,
		"leases", l.core.table.Counts().Leases, "after", l.clock.Now().Longer(start).Round(time.Millisecond))
	return l.serve(ctx)
}

// logLostCell says that the cell founded just now takes the place of one that was
// deleted, perhaps by somebody who did not know what it was; guards keep its id.
func (c *Cell) logLostCell(founded string) {
	switch lost := c.Info().Cell; {
	case lost != "":
		c.o.Logger.Error("store_rolled_back: the store has nothing more of the cell that was served here; one is founded anew",
			"lost", lost, "cell", founded)
	case c.stoodBy:
		c.o.Logger.Error("store_rolled_back: the store has nothing more of the cell that this server stood by for; one is founded anew",
			"cell", founded)
	default:
		return
	}
	c.rolledBack.Store(true)
}

// claim waits for its turn, and tells meanwhile who is active.
func (c *Cell) claim(ctx context.Context, nonce store.Nonce, first func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	watch, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.pollActive(watch, c.o.ActiveTTL/2, c.standsBy())
	}()
	defer func() {
		stop()
		<-gone
	}()
	return c.o.Store.Claim(ctx, c.o.Node, nonce, first)
}

// standsBy keeps Info up to date while another server is active, and writes down
// once that this one stands by.
func (c *Cell) standsBy() func(active store.Node) {
	told := false
	return func(active store.Node) {
		c.stoodBy = c.stoodBy || active != store.Node{}
		info := c.Info()
		info.ActiveLink, info.ActiveHTTP = active.Link, active.HTTP
		c.info.Store(&info)
		if !told && info.Role() == RoleStandby {
			told = true
			c.o.Logger.Info("standing by", "active_link", active.Link, "active_http", active.HTTP)
		}
	}
}

// takeOver reads the log and lands the opening batch behind its head.
func (c *Cell) takeOver(ctx context.Context, t store.Tenure) (*core, growth, error) {
	r, err := replay(ctx, t, c.o.Limits)
	for err != nil {
		if final(err) || !pause(ctx, c.o.Clock) {
			return nil, growth{}, err
		}
		c.o.Logger.Warn("reading the log failed, trying again", "error", err)
		r, err = replay(ctx, t, c.o.Limits)
	}
	k := newCore(r.table, t.Epoch(), t.Nonce())
	k.last, k.durable, k.sum = r.head, r.head, r.sum
	raw := k.opening(c.o.Clock.Wall(), c.o.TokenFloor)
	for {
		err := t.Open(ctx, k.last, raw)
		if err == nil {
			return k, r.growth, nil
		}
		if final(err) || !pause(ctx, c.o.Clock) {
			return nil, growth{}, fmt.Errorf("open the tenure with batch %d: %w", k.last, err)
		}
	}
}
