package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/internal/clock"
)

// beginRide says that the lease rides, and why as far as is known.
func (h *renewals) beginRide(why error) {
	l := h.lease.Load()
	if l == nil {
		return
	}
	left := (*l).RideLeft()
	until := clock.System().Wall().Add(left).UTC().Format(time.RFC3339)
	line := "no server answers: the lease"
	if errors.Is(why, pawl.ErrDenied) {
		line = "the server refuses to renew the lease (" + exit.Text(why) + "): it"
	}
	line += " rides on its guard, until " + until + " at the latest"
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || left <= 0 {
		return
	}
	h.rideBegan = clock.Boottime()
	h.report("riding", line, map[string]any{"until": until})
}

// answered says that a ride has ended by an answer, and reports whether there was one.
func (h *renewals) answered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.ended && h.endRide(false)
}

// endRide says that a ride is over, and reports whether there was one. Why the lease was
// lost is said where that is known. It is called with the lock held.
func (h *renewals) endRide(lost bool) bool {
	if h.rideBegan == 0 {
		return false
	}
	length := output.Duration(clock.Boottime() - h.rideBegan)
	h.rideBegan = 0
	line := "a server answers again; the lease goes on under the same token, after riding " + length.String()
	if lost {
		line = "the ride is over, after " + length.String()
	}
	h.report("ride_ended", line, map[string]any{"rode": length.String(), "lost": lost})
	return true
}

// rideThrough is how long the lease may go on without an answer; 0: to its deadline.
func (r *running) rideThrough() time.Duration {
	return r.Mode.RideThrough.Value - time.Duration(r.ungranted.Load())
}

// agree goes by the ride-through that the server granted, and says so where that is less
// than was asked for.
func (r *running) agree(granted time.Duration) {
	asked := r.rideThrough()
	if granted >= asked {
		return
	}
	r.ungranted.Store(int64(asked - granted))
	if granted > 0 {
		r.notice(fmt.Sprintf("the server grants a ride of %v at most, and --ride-through is %v", output.Duration(granted), output.Duration(asked)))
		return
	}
	r.notice("the server grants no ride, since it is older than --ride-through: the command is ended by the lease's deadline when no server answers, as without the flag")
}

// report is notice, and with --json an event of its own kind.
func (r *running) report(what, line string, with map[string]any) {
	switch {
	case r.Quiet:
	case r.JSON:
		with["text"] = line
		r.event(what, with)
	default:
		r.alarm(line)
	}
}

// rideOverdue says why the command of a lease that may ride was not given more time.
func (h *renewals) rideOverdue() string {
	var left time.Duration
	if l := h.lease.Load(); l != nil {
		left = (*l).RideLeft()
	}
	length, ago := h.stops.Last()
	switch {
	case left <= h.KillAfter.Value+supervise.Margin(h.TTL.Value)+h.TTL.Value/12:
		return fmt.Sprintf("its ride-through of %v is over, and no server has answered", output.Duration(h.rideThrough()))
	case length > 0 && ago < h.TTL.Value:
		return h.stop(length)
	}
	return "the watcher was not told in time that it goes on"
}
