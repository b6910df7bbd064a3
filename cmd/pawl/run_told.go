package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/rest"
	"github.com/pawlproject/pawl/cmd/pawl/supervise"
	"github.com/pawlproject/pawl/internal/store"
)

// probe looks for a server, so that there being none is said at once and in the
// same words as by every other command; a run that waits for its turn waits for
// a server, too. On the way it learns what a change of the active server would
// do to the command.
func (r *running) probe(ctx context.Context, asking *client) error {
	wait := reachMax
	if r.nonblock || r.wait.given {
		wait = r.wait.value
	}
	if !r.quiet {
		asking.waits = r.notice
	}
	activeTTL := store.ActiveTTLDefault // of a server that does not tell its own
	err := asking.read(ctx, wait, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		s, err := l.Status(ctx, &linkpb.StatusRequest{})
		if err == nil && s.GetActiveTtlNano() > 0 {
			activeTTL = time.Duration(s.GetActiveTtlNano())
		}
		return err
	})
	if err == nil && len(r.args) > 0 && !supervise.RidesOutTakeover(r.ttl.value, r.killAfter.value, activeTTL) {
		r.notice(fmt.Sprintf("with --ttl %v and --kill-after %v the command is ended when no server answers for %v; a restart of the server, or another one's taking over, can take %v; a longer --ttl gives it the time",
			people(r.ttl.value), people(r.killAfter.value), people(supervise.Grace(r.ttl.value, r.killAfter.value)), people(activeTTL+2*time.Second)))
	}
	return err
}

// people is a duration as people read it.
func people(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// tellAfter is how long a run waits for its turn before it says for whom.
const tellAfter = time.Second

// tellHolder says once who has the name that is waited for.
func (r *running) tellHolder(ctx context.Context, asking *client) {
	<-after(ctx, tellAfter)
	if ctx.Err() != nil {
		return
	}
	_ = list(ctx, asking, &linkpb.ListRequest{Name: r.name}, func(l rest.LockBody) error { // only to be helpful
		if len(l.Holders) > 0 && ctx.Err() == nil {
			r.notice("waiting: " + shown(l.Name) + " is " + describe(l.Holders[0]))
		}
		return nil
	})
}

// renewals tells how those of a lease fare.
type renewals struct {
	*running
	lease *pawl.Lease
	last  atomic.Pointer[error]
}

func (h *renewals) watch(events <-chan pawl.Event) {
	warned := false
	for e := range events {
		switch e.Kind {
		case pawl.Jeopardy:
			warned = true
			if e.Err != nil {
				h.last.Store(&e.Err)
			}
			left := max(e.Remaining-h.killAfter.value-supervise.Margin(h.ttl.value), 0)
			h.notice(fmt.Sprintf("%s; unless that changes, the command is asked to end in %v", h.overdue(), left.Round(100*time.Millisecond)))
		case pawl.Safe:
			h.last.Store(nil)
			if warned && h.lease.Remaining() > 0 {
				h.notice("renewals are answered again")
			}
		}
	}
}

// overdue says for how long no server has answered, or that one has said no, and
// why as far as is known.
func (h *renewals) overdue() string {
	if why := h.last.Load(); why != nil && errors.Is(*why, pawl.ErrDenied) {
		return "the server refuses to renew the lease (" + textOf(*why) + ")"
	}
	text := fmt.Sprintf("no server has answered a renewal for %v", (h.ttl.value - h.lease.Remaining()).Round(100*time.Millisecond))
	if why := h.last.Load(); why != nil {
		text += " (" + textOf(*why) + ")"
	}
	return text
}
