package cell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/step"
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
	var fresh *step.Core
	first := func(epoch uint64, nonce store.Nonce) (opening []byte) {
		var secret [32]byte
		rand.Read(secret[:])
		founding := step.Founding{Cell: cmp.Or(c.o.CellID, NewID(c.o.Name)), Secret: secret[:], Limits: c.o.Limits}
		fresh, opening = step.Found(founding, epoch, nonce, c.o.Clock.Wall(), c.o.TokenFloor)
		return opening
	}
	follower := step.NewFollower(c.o.Limits)
	t, err := c.claim(ctx, nonce, first, follower)
	if err != nil {
		return fmt.Errorf("claim a tenure: %w", err)
	}
	l := &loop{cell: c, store: &outage{Tenure: t}, clock: c.o.Clock}
	start := l.clock.Now()
	if t.Opened() {
		l.core = fresh
	} else if l.core, l.growth, err = c.takeOver(ctx, t, follower); err != nil {
		return errors.Join(err, l.resign())
	}
	if c.o.Ended != nil {
		l.core.Table().ReportEnds(&endReceiver{c.o.Ended})
	}
	if t.Opened() {
		c.logLostCell(l.core.Table().Cell())
	}
	l.core.Begun(l.clock.Now())
	c.stats.Tenures.Add(1)
	c.o.Logger.Info("serving", "cell", l.core.Table().Cell(), "epoch", t.Epoch(), "token", l.core.Table().Counts().Counter,
		"leases", l.core.Table().Counts().Leases, "after", l.clock.Now().Longer(start).Round(time.Millisecond))
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

// claim waits for its turn. Meanwhile it tells who is active, and follows the log that
// this one writes.
func (c *Cell) claim(ctx context.Context, nonce store.Nonce, first func(uint64, store.Nonce) []byte, f *step.Follower) (store.Tenure, error) {
	watch, stop := context.WithCancel(ctx)
	others := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { c.pollActive(watch, c.o.ActiveTTL/2, c.standsBy(others)) })
	beside.Go(func() {
		select {
		case <-others:
			c.follow(watch, f)
		case <-watch.Done():
		}
	})
	defer func() {
		stop()
		beside.Wait()
	}()
	return c.o.Store.Claim(ctx, c.o.Node, nonce, first)
}

// standsBy keeps Info up to date while another server is active, and writes down
// once that this one stands by. It closes others when it knows of another one.
func (c *Cell) standsBy(others chan<- struct{}) func(active store.Node) {
	told := false
	return func(active store.Node) {
		c.stoodBy = c.stoodBy || active != store.Node{}
		if others != nil && active != (store.Node{}) {
			close(others)
			others = nil
		}
		info := c.Info()
		info.ActiveLink, info.ActiveHTTP = active.Link, active.HTTP
		c.info.Store(&info)
		if !told && info.Role() == RoleStandby {
			told = true
			c.o.Logger.Info("standing by", "active_link", active.Link, "active_http", active.HTTP)
		}
	}
}

// takeOver reads the log, or what the follower has not read of it, and lands the opening
// batch behind its head.
func (c *Cell) takeOver(ctx context.Context, t store.Tenure, f *step.Follower) (*step.Core, step.Growth, error) {
	r, err := c.resume(ctx, t, f)
	if errors.Is(err, store.ErrMoved) {
		r, err = c.replay(ctx, t)
	}
	if err != nil {
		return nil, step.Growth{}, err
	}
	k, number, opening := r.Core(t.Epoch(), t.Nonce(), c.o.Clock.Wall(), max(c.o.TokenFloor, f.Floor(r)))
	for {
		err := t.Open(ctx, number, opening)
		if err == nil {
			return k, r.Growth, nil
		}
		if final(err) || !pause(ctx, c.o.Clock) {
			return nil, step.Growth{}, fmt.Errorf("open the tenure with batch %d: %w", number, err)
		}
	}
}

// replay reads the whole log.
func (c *Cell) replay(ctx context.Context, t store.Tenure) (*step.Replayed, error) {
	read := func(chunk, batch func(uint64, []byte) error) (uint64, error) { return t.Replay(ctx, chunk, batch) }
	for {
		r, err := step.Replay(read, t.Epoch(), c.o.Limits)
		if err == nil || final(err) || !pause(ctx, c.o.Clock) {
			return r, err
		}
		c.o.Logger.Warn("reading the log failed, trying again", "error", err)
	}
}
