package runner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/internal/store"
)

// probe looks for a server, so that a missing server is reported at once and in the
// words of every other command. A run that waits for its turn also waits for a server.
// probe also learns what a change of the active server would mean for the command.
func (r *running) probe(ctx context.Context, asking *client.Client) error {
	wait := client.UnreachableMax
	if r.Nonblock || r.Wait.Given {
		wait = r.Wait.Value
	}
	if !r.Quiet {
		asking.Waits = r.notice
	}
	activeTTL := store.ActiveTTLDefault // of a server that does not tell its own
	err := asking.Read(ctx, wait, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		s, err := l.Status(ctx, &linkpb.StatusRequest{})
		if err == nil && s.GetActiveTtlNano() > 0 {
			activeTTL = time.Duration(s.GetActiveTtlNano())
		}
		return err
	})
	if err == nil && len(r.Args) > 0 && !supervise.RidesOutTakeover(r.TTL.Value, r.KillAfter.Value, activeTTL) {
		r.notice(fmt.Sprintf("with --ttl %v and --kill-after %v the command is ended when no server answers for %v; a restart of the server, or another one's taking over, can take %v; a longer --ttl gives it the time",
			output.Duration(r.TTL.Value), output.Duration(r.KillAfter.Value), output.Duration(supervise.Grace(r.TTL.Value, r.KillAfter.Value)), output.Duration(activeTTL+2*time.Second)))
	}
	return err
}

// reportAfter is how long a run waits for its turn before it says for whom.
const reportAfter = time.Second

// reportHolder says once who has the name that is waited for.
func (r *running) reportHolder(ctx context.Context, asking *client.Client) {
	<-client.After(ctx, reportAfter)
	if ctx.Err() != nil {
		return
	}
	_ = asking.List(ctx, &linkpb.ListRequest{Name: r.Name}, func(l rest.LockBody) error { // only to be helpful
		if len(l.Holders) > 0 && ctx.Err() == nil {
			r.notice("waiting: " + output.Text(l.Name) + " is " + output.Holder(l.Holders[0]))
		}
		return nil
	})
}

// renewals tells how those of a session fare, while it waits and while it holds.
type renewals struct {
	*running
	lease atomic.Pointer[remainder] // nil: it waits
	last  atomic.Pointer[error]
}

// remainder is a lease, as far as its time is concerned.
type remainder interface{ Remaining() time.Duration }

// granted has what is told be told of a lease from now on.
func (h *renewals) granted(l remainder) { h.lease.Store(&l) }

// remaining is the time until the lease's deadline; ok: there is a lease.
func (h *renewals) remaining() (left time.Duration, ok bool) {
	if l := h.lease.Load(); l != nil {
		return (*l).Remaining(), true
	}
	return 0, false
}

func (h *renewals) watch(events <-chan pawl.Event) {
	warned := false
	for e := range events {
		now, held := h.remaining()
		switch e.Kind {
		case pawl.Jeopardy:
			if e.Err != nil {
				h.last.Store(&e.Err)
			}
			switch {
			case !held && errors.Is(e.Err, pawl.ErrDenied):
				// The wait ends with it, or the next attempt has another credential.
			case !held:
				warned = true
				h.notice(h.silence(e.Remaining) + "; the place in the queue is lost in " + output.Duration(e.Remaining).String() + ", unless that changes")
			case now > e.Remaining:
				// It is over: a renewal was answered since.
			default:
				warned = true
				h.notice(h.overdue() + "; unless that changes, " + h.threat(e.Remaining))
			}
		case pawl.Lost:
			if !held {
				warned = true
				h.notice("the place in the queue is lost (" + exit.Text(e.Err) + "); the next one is taken when a server answers")
			}
		case pawl.Safe:
			h.last.Store(nil)
			switch {
			case warned && !held:
				h.notice("a server answers again")
			case warned && now > 0:
				h.notice("renewals are answered again")
			}
			warned = false
		}
	}
}

// threat says what comes when no renewal is answered for what remains.
func (h *renewals) threat(remaining time.Duration) string {
	if len(h.Args) == 0 {
		return "the lease is lost in " + output.Duration(remaining).String()
	}
	left := max(remaining-h.KillAfter.Value-supervise.Margin(h.TTL.Value), 0)
	return "the command is asked to end in " + left.Round(100*time.Millisecond).String()
}

// overdue says for how long no server has answered, or that one has said no, and
// why as far as is known.
func (h *renewals) overdue() string {
	if why := h.last.Load(); why != nil && errors.Is(*why, pawl.ErrDenied) {
		return "the server refuses to renew the lease (" + exit.Text(*why) + ")"
	}
	left, _ := h.remaining()
	return h.silence(left)
}

// silence says for how long no server has answered a renewal, of a session that
// ends after what remains, and why as far as is known.
func (h *renewals) silence(remaining time.Duration) string {
	text := fmt.Sprintf("no server has answered a renewal for %v", (h.TTL.Value - remaining).Round(100*time.Millisecond))
	if why := h.last.Load(); why != nil {
		text += " (" + exit.Text(*why) + ")"
	}
	return text
}
