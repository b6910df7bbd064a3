package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Quiet is one request for names that few others ask for. Only the end of earlier
// holders and waiters can have it served, so a lost wake-up is not made up for by the
// next request. It goes to the server that is active then, without a stream, for a
// lease with a session of its own.
type Quiet struct {
	At    time.Duration
	Names []string
	Mode  locktable.Mode
	Slots uint32
	TTL   time.Duration
	// GiveUp: it is cancelled after this time, if it still waits; 0: never.
	GiveUp time.Duration
	// HangUp: it can be repeated, and is not cancelled: its connection ends. Nobody
	// asks for it again.
	HangUp bool
	// Claims: whoever asks claims before it acts. Ride is for how long the lease may ride.
	Claims bool
	Ride   time.Duration
	// Hold is how long the lease is kept; 0: its holder dies with it.
	Hold time.Duration
}

// drawQuiet draws a few groups of quiet requests for some worlds: for shared leases,
// slots and several names at once, some of them given up while they wait. In rare
// worlds it draws thousands whose sessions all end at once, and others that wait behind
// them.
func drawQuiet(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeQuiet))
	if p.Full || p.Modes != nil && p.Modes.Row {
		return
	}
	switch n := r.IntN(160); {
	case n == 0:
		p.dieTogether(r)
	case n < 40:
		for group := range 2 + r.IntN(6) {
			from := pick(r, time.Second, p.FaultsEnd+quietAfter)
			p.quietGroup(r, fmt.Sprintf("q%d", group+1), between(r, from, p.Stop))
		}
	}
}

// quietGroup draws some requests for three names of their own.
func (p *Plan) quietGroup(r *rand.Rand, prefix string, at time.Duration) {
	slots := pick(r, 0, 0, uint32(1+r.IntN(3)))
	for range 3 + r.IntN(6) {
		q := Quiet{At: at, TTL: between(r, 3*time.Second, 6*time.Second), Slots: slots, Hold: between(r, 10*time.Millisecond, 2*time.Second)}
		for _, i := range r.Perm(3)[:1+r.IntN(3)] {
			q.Names = append(q.Names, fmt.Sprintf("%s-%d", prefix, i+1))
		}
		switch {
		case slots > 0:
			q.Mode = locktable.Slots
		case r.IntN(2) == 0:
			q.Mode = locktable.Shared
		}
		if r.IntN(2) == 0 {
			q.GiveUp = between(r, 10*time.Millisecond, 2*time.Second)
		}
		if r.IntN(8) == 0 {
			q.Hold = 0
		}
		p.Quiet = append(p.Quiet, q)
		at += between(r, time.Millisecond, 300*time.Millisecond)
	}
}

// dieTogether draws leases by the thousand, of slots or of a name each, whose sessions
// expire in one moment, and some requests that wait for what they hold.
func (p *Plan) dieTogether(r *rand.Rand) {
	at, ttl := between(r, 2*time.Second, p.FaultsEnd), between(r, time.Second, 3*time.Second)
	all := 1001 + r.IntN(1500)
	q := Quiet{At: at, TTL: ttl}
	slots := r.IntN(2) == 0
	if slots {
		q.Mode, q.Slots = locktable.Slots, uint32(all)
	}
	for i := range all + 20 {
		if i >= all {
			q.Hold = between(r, 10*time.Millisecond, 2*time.Second)
			q.At = at + between(r, 100*time.Millisecond, ttl)
		}
		name := i
		switch {
		case slots:
			name = 0
		case i >= all:
			name = r.IntN(all)
		}
		q.Names = []string{fmt.Sprintf("many%d", name)}
		p.Quiet = append(p.Quiet, q)
	}
}

// quiet is such a request once it was asked. Its caller's connection stands as long as
// its server's process does.
type quiet struct {
	Quiet
	world   *World
	server  *server
	life    uint32
	lease   locktable.ID
	granted guard.Token
	// free: when it was looked at last, nothing held it up.
	free bool
	// cancelled: it was given up; answered: nobody waits for it any more.
	cancelled, answered bool
}

// asks has the active server asked; when there is none, nobody is.
func (w *World) asks(p Quiet) {
	s := w.active()
	if s == nil {
		return
	}
	id := w.newID()
	q := &quiet{Quiet: p, world: w, server: s, life: s.life, lease: leaseOf(id[:])}
	w.quiet = append(w.quiet, q)
	a := locktable.Acquire{
		Ref: q, Names: p.Names, Mode: p.Mode, Slots: p.Slots, Lease: q.lease, Own: ownOf(q.lease), TTL: p.TTL,
		Claims: p.Claims, RideThrough: p.Ride,
	}
	if p.HangUp {
		a.RequestKey, a.Salt = id, id[:]
	}
	s.add(nil, []locktable.Command{a})
	if p.GiveUp > 0 {
		w.after(&s.process, p.GiveUp, q.giveUp)
	}
}

// giveUp cancels the request while it waits, or ends its connection.
func (q *quiet) giveUp() {
	if q.waits() {
		q.cancelled = true
		if q.server.withdraw(q) {
			return
		}
		var c locktable.Command = locktable.Cancel{Waiter: q}
		if q.HangUp {
			c = locktable.DetachWaiter{Waiter: q}
		}
		q.server.add([]locktable.Command{c}, nil)
	}
}

// waits reports whether it was asked of a process that still serves, was not given up
// and has no answer.
func (q *quiet) waits() bool {
	return !q.answered && !q.cancelled && q.server.life == q.life && q.server.serving
}

func (q *quiet) receive(_ uint64, a locktable.Answer) {
	w := q.world
	switch a := a.(type) {
	case locktable.Waiting:
		return
	case locktable.Granted:
		q.granted = a.Token
		w.note("quiet", "token %d of %v is granted", a.Token, q.Names)
		if q.cancelled && q.HangUp {
			// It was decided before. The lease ends with its session.
		} else if q.cancelled {
			q.release()
		} else if q.Hold > 0 {
			w.at(w.now+q.Hold, q.release)
		}
	}
	q.answered = true
}

// release lets go, at whichever server is active; when none is, the lease expires.
func (q *quiet) release() {
	if s := q.world.active(); s != nil {
		s.add([]locktable.Command{locktable.Release{Ref: nobody{}, Lease: q.lease}}, nil)
	}
}

const (
	// quietAfter is how long after the faults a request is served at once, when the
	// store has answered all that was asked before, for which it has an active-ttl.
	quietAfter = 2 * time.Second
	quietEvery = 500 * time.Millisecond
)

// overlooked holds the requests that wait against the log, time and again: none waits
// for long while all its names are free for it and nobody stands before it (I10).
func (w *World) overlooked() {
	s := w.active()
	for i, q := range w.quiet {
		free := s != nil && q.waits() && q.server == s && w.referee.freeFor(q) && !q.behind(w.quiet[:i])
		if free && q.free {
			w.fail("I10", "%v was asked for at %v, is free and has nobody waiting before that, and is not granted", q.Names, q.At)
		}
		q.free = free
	}
	w.at(w.now+quietEvery, w.overlooked)
}

// behind reports whether one of those that were asked before waits for one of its names.
func (q *quiet) behind(before []*quiet) bool {
	return slices.ContainsFunc(before, func(x *quiet) bool {
		return x.waits() && !q.world.referee.ledger.passedOver(x.Claims, x.Names) && slices.ContainsFunc(x.Names, func(n string) bool { return slices.Contains(q.Names, n) })
	})
}

// freeFor reports whether the log has all names of a request free for it.
func (r *referee) freeFor(q *quiet) bool {
	if r.ledger.passedOver(q.Claims, q.Names) {
		return false
	}
	for _, n := range q.Names {
		all := r.ledger.holders[n]
		if q.Mode == locktable.Slots && uint32(len(all)) >= q.Slots {
			return false
		}
		for _, x := range all {
			if q.Mode == locktable.Exclusive || x.mode != q.Mode {
				return false
			}
		}
	}
	return true
}
