package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

const (
	// recoverGap is how far tokens are raised above the clock's line: as much as the
	// clocks of servers may differ, ten seconds.
	recoverGap = 10 << 20
	// recoverReason is what holders are told.
	recoverReason = "the cell was recovered from one of its members; acknowledged writes may be lost"
	// breakersMax bounds the leases that are broken at the same time.
	breakersMax = 64
)

// Recovered says what a recovery did.
type Recovered struct {
	Cell   string
	Broken int
	// Kept is where the survivor's member lies.
	Kept string
	// Resumed: an earlier recovery had done all but the last step.
	Resumed bool
}

// Recover makes the cell of r one of a new cluster: it raises the tokens and ends
// every lease, since its holder may have let go, or somebody else been granted the
// name, in what is lost.
func Recover(ctx context.Context, r *etcdstore.Recovery, o Options) (out Recovered, err error) {
	if r.Built() {
		return Recovered{Kept: r.Kept(), Resumed: true}, r.Finish()
	}
	if err := checkClock(o.Clock.Wall(), o.Released); err != nil {
		return out, err
	}
	if err := r.Build(ctx); err != nil {
		return out, err
	}
	c := cell.New(cell.Options{
		Store: r.New, Node: store.Node{ID: r.New.NodeID()}, Clock: o.Clock, Logger: o.Logger,
		TokenFloor: locktable.CounterLimit(o.Clock.Wall()) + recoverGap,
	})
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	select {
	case <-c.Ready():
	case err := <-ended:
		return out, errors.Join(err, context.Cause(ctx))
	}
	out.Cell = c.Info().Cell
	out.Broken, err = breakAll(ctx, c)
	stop()
	if err := errors.Join(err, <-ended, context.Cause(ctx)); err != nil {
		return out, err
	}
	out.Kept = r.Kept()
	return out, r.Finish()
}

// breakAll ends leases until there is none: a waiter is granted what is free.
func breakAll(ctx context.Context, c *cell.Cell) (broken int, err error) {
	for {
		n, err := breakOnce(ctx, c)
		broken += n
		if err != nil || n == 0 {
			return broken, err
		}
	}
}

func breakOnce(ctx context.Context, c *cell.Cell) (broken int, err error) {
	var mu sync.Mutex
	var failed error
	for after := ""; ; {
		page, err := c.List(ctx, locktable.List{After: after, WithoutQueue: true})
		if err != nil {
			return broken, fmt.Errorf("list what is held: %w", err)
		}
		var breaking sync.WaitGroup
		places := make(chan struct{}, breakersMax)
		for _, l := range page.Locks {
			for _, h := range l.Holders {
				places <- struct{}{}
				breaking.Go(func() {
					defer func() { <-places }()
					_, err := c.Break(ctx, locktable.Break{Name: l.Name, Token: h.Token, Reason: recoverReason, Now: true})
					var no *cell.RefusedError
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						broken++
					case errors.As(err, &no) && no.Reason == locktable.TokenMismatch: // it held another name that was broken
					default:
						failed = fmt.Errorf("end the lease of %q: %w", l.Name, err)
					}
				})
			}
		}
		breaking.Wait()
		if failed != nil || page.Next == "" {
			return broken, failed
		}
		after = page.Next
	}
}
