package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
	"github.com/pawlproject/pawl/internal/clock"
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
	waits := ""
	err := asking.Read(ctx, wait, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		s, err := l.Status(ctx, &linkpb.StatusRequest{})
		if err == nil && s.GetActiveTtlNano() > 0 {
			activeTTL = time.Duration(s.GetActiveTtlNano())
		}
		waits = s.GetWaits()
		return err
	})
	if err == nil && waits != "" {
		r.unserved = fmt.Sprintf("%s waits for %s; \"pawl doctor\" says what to do", asking.Served(), termsafe.Text(waits))
		r.notice("waiting for a server that serves: " + r.unserved)
	}
	if err == nil && len(r.Args) > 0 && !r.mayRide() && !supervise.RidesOutTakeover(r.TTL.Value, r.KillAfter.Value, activeTTL) {
		r.notice(fmt.Sprintf("with --ttl %v and --kill-after %v the command is ended when no server answers for %v; a restart of the server, or another one's taking over, can take %v; a longer --ttl gives it the time",
			output.Duration(r.TTL.Value), output.Duration(r.KillAfter.Value), output.Duration(supervise.Grace(r.TTL.Value, r.KillAfter.Value)), output.Duration(activeTTL+2*time.Second)))
	}
	if err == nil && r.mayRide() && r.Mode.RideThrough.Value <= r.TTL.Value {
		r.notice(fmt.Sprintf("with --ttl %v and --ride-through %v the lease never rides: its ride would be over before its deadline; expected a longer --ride-through",
			output.Duration(r.TTL.Value), output.Duration(r.Mode.RideThrough.Value)))
	}
	return err
}

// reportAfter is how long a run waits for its turn before it says for whom.
const reportAfter = time.Second

// reportHolder says who has the name that is waited for, and says it again when a
// place in the queue was lost and a server answers again. Unless the acquire claims, it
// also looks every TTL whether the name has become claim-only, and says so once.
func (r *running) reportHolder(ctx context.Context, asking *client.Client) {
	<-client.After(ctx, reportAfter)
	for again := false; ctx.Err() == nil; {
		looks := !r.Mode.Claims
		_ = asking.List(ctx, &linkpb.ListRequest{Name: r.Name}, func(l rest.LockBody) error { // only to be helpful
			switch {
			case ctx.Err() != nil:
			case l.ClaimOnly > 0 && !r.Mode.Claims:
				looks = false
				r.notice("waiting: " + claimOnly(l))
			case len(l.Holders) > 0 && !again:
				r.notice("waiting: " + output.Text(l.Name) + " is " + output.Holder(l.Holders[0]))
			}
			return nil
		})
		var look <-chan struct{}
		if looks {
			look = client.After(ctx, r.TTL.Value)
		}
		select {
		case <-look:
			again = true
		case <-r.heard.back:
			again = false
		case <-ctx.Done():
		}
	}
}

// claimOnly says why a name is not granted to an acquire that does not claim, and until
// when.
func claimOnly(l rest.LockBody) string {
	left := time.Duration(l.ClaimOnly)
	return fmt.Sprintf("%s is closed for %v, until %s, to acquires that do not claim: a lease that rides through outages ended unreleased, and its holder may be going on; with --claim or --claims it is granted at once",
		output.Text(l.Name), output.Duration(left), clock.System().Wall().Add(left).UTC().Format(time.RFC3339))
}

// askHolder says why a name was not granted in time; empty: nobody has it, or no server
// says so at once.
func (r *running) askHolder(asking *client.Client) (text string) {
	ctx, cancel := context.WithTimeout(context.Background(), partMax)
	defer cancel()
	_ = asking.List(ctx, &linkpb.ListRequest{Name: r.Name}, func(l rest.LockBody) error { // only to be helpful
		switch {
		case l.ClaimOnly > 0 && !r.Mode.Claims:
			text = ": " + claimOnly(l)
		case len(l.Holders) > 0:
			text = ": it is " + output.Holder(l.Holders[0])
		}
		return nil
	})
	return text
}

// renewals tells how those of a session fare, while it waits and while it holds.
type renewals struct {
	*running
	lease atomic.Pointer[remainder] // nil: it waits
	last  atomic.Pointer[error]
	stops *supervise.Stops
	// back has a value when a server answers after a place in the queue was lost.
	back chan struct{}

	mu    sync.Mutex
	ended bool
	// rideBegan is when the ride began, by the boot clock; 0: none is under way.
	rideBegan time.Duration
}

// end has nothing more be said of renewals: why the command is ended is said now.
func (h *renewals) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.endRide(true)
	}
	h.ended = true
}

// tell is notice, unless the command is being ended. It says so under the lock: the
// reason for the end comes last.
func (h *renewals) tell(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.notice(line)
	}
}

// remainder is a lease, as far as its time is concerned.
type remainder interface {
	Remaining() time.Duration
	RideLeft() time.Duration
}

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
	over, toHolder := "", false // what is said when all is well again, and to whom
	lost, silent := false, false
	for e := range events {
		now, held := h.remaining()
		switch e.Kind {
		case pawl.Jeopardy:
			if e.Err != nil {
				h.last.Store(&e.Err)
			}
			stop := h.stopped(h.TTL.Value - e.Remaining)
			toHolder, silent = held, true
			switch {
			case !held && errors.Is(e.Err, pawl.ErrDenied):
				// The wait ends with it, or the next attempt has another credential.
			case !held && stop != "":
				over = "the place in the queue is kept"
				h.notice(stop + "; unless a server answers now, the place in the queue is lost in " + output.Duration(e.Remaining).String())
			case !held:
				over = "a server answers again"
				h.notice(h.silence(e.Remaining) + "; the place in the queue is lost in " + output.Duration(e.Remaining).String() + ", unless that changes")
			case now > e.Remaining:
				// It is over: a renewal was answered since.
			case h.spare(e.Remaining) <= 0:
				// The command's time is over: what comes of that is said at once.
			case stop != "":
				over = "the lease is renewed again"
				h.tell(stop + "; unless a server answers now, " + h.threat(e.Remaining))
			default:
				over = "renewals are answered again"
				h.tell(h.why(now) + "; unless that changes, " + h.threat(e.Remaining))
			}
		case pawl.Lost:
			if !held {
				over, toHolder, lost = "a server answers again", false, true
				why, stop := exit.Text(e.Err), h.overslept()
				if silent {
					stop = h.stopped(h.TTL.Value)
				}
				if stop != "" {
					over, why = "", stop
				}
				h.notice("the place in the queue is lost (" + why + "); the next one is taken when a server answers")
			}
		case pawl.Riding:
			h.beginRide(e.Err)
		case pawl.Safe:
			h.last.Store(nil)
			if h.answered() {
				over = ""
			}
			if over != "" && held == toHolder && (!held || now > 0) {
				h.tell(over)
			}
			if lost {
				select {
				case h.back <- struct{}{}:
				default:
				}
			}
			over, lost, silent = "", false, false
		}
	}
}

// spare is for how long the command may go on when the lease lasts for what remains.
func (h *renewals) spare(remaining time.Duration) time.Duration {
	if len(h.Args) == 0 || h.mayRide() {
		return remaining
	}
	return remaining - h.KillAfter.Value - supervise.Margin(h.TTL.Value)
}

// threat says what comes when no renewal is answered for what remains.
func (h *renewals) threat(remaining time.Duration) string {
	if h.mayRide() {
		return "the lease begins to ride on its guard in " + output.Duration(remaining).String()
	}
	if len(h.Args) == 0 {
		return "the lease is lost in " + output.Duration(remaining).String()
	}
	return "the command is asked to end in " + h.spare(remaining).Round(100*time.Millisecond).String()
}

// why says for how long no server has answered, or that one has said no, and why as
// far as is known.
func (h *renewals) why(remaining time.Duration) string {
	if why := h.last.Load(); why != nil && errors.Is(*why, pawl.ErrDenied) {
		return "the server refuses to renew the lease (" + exit.Text(*why) + ")"
	}
	return h.silence(remaining)
}

// overdue says why the lease was not renewed before the command's time was over. A
// renewal may have been answered since.
func (h *renewals) overdue() string {
	left, _ := h.remaining()
	if h.mayRide() {
		return h.rideOverdue()
	}
	if h.spare(left) > h.TTL.Value/12 {
		if length, ago := h.stops.Last(); length > 0 && ago < h.TTL.Value {
			return h.stop(length)
		}
		return "a renewal was answered too late"
	}
	if stop := h.stopped(h.TTL.Value - left); stop != "" {
		return stop
	}
	return h.why(left)
}

// stopped says that this process itself was stopped while it renewed nothing, for as
// long as silent. It is empty when it was not, or when a server has said no.
func (h *renewals) stopped(silent time.Duration) string {
	length, ago := h.stops.Last()
	switch why := h.last.Load(); {
	case length == 0 || ago >= silent || why != nil && errors.Is(*why, pawl.ErrDenied):
		return ""
	case ago > h.TTL.Value/6:
		return fmt.Sprintf("%s, and no server has answered a renewal for %v since", h.stop(length), output.Duration(ago))
	}
	return h.stop(length)
}

// overslept says that this process itself was stopped just now, for so long that this
// alone has cost it the session. After a shorter stop a renewal may have been answered,
// and the session have ended for another reason.
func (h *renewals) overslept() string {
	length, ago := h.stops.Last()
	if length < h.TTL.Value*3/4 || ago > h.TTL.Value/6 {
		return ""
	}
	return h.stop(length)
}

func (h *renewals) stop(length time.Duration) string {
	return fmt.Sprintf("pawl %s itself was stopped for %v", h.verb(), output.Duration(length))
}

// silence says for how long no server has answered a renewal, of a session that
// ends after what remains, and why as far as is known.
func (h *renewals) silence(remaining time.Duration) string {
	var why error
	if known := h.last.Load(); known != nil {
		why = *known
	}
	return Silence(h.TTL.Value-remaining, why)
}

// Silence says for how long no server has answered a renewal, and why as far as is known.
func Silence(lasts time.Duration, why error) string {
	text := fmt.Sprintf("no server has answered a renewal for %v", lasts.Round(100*time.Millisecond))
	if why != nil {
		text += " (" + exit.Text(why) + ")"
	}
	return text
}
