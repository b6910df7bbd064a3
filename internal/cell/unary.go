package cell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// retryAfter is when an exhausted caller may ask again.
const retryAfter = time.Second

// OpenSession opens a session without a stream; ttl 0 is TTLDefault. The caller, here
// and below, is the identity of the context (As). Errors are *RefusedError or the
// context's.
func (c *Cell) OpenSession(ctx context.Context, ttl time.Duration, label string) (session string, granted time.Duration, err error) {
	id := drawID()
	a, err := c.ask(ctx, func(ref locktable.Ref) locktable.Command {
		return locktable.OpenSession{
			Ref: ref, New: id.hash(), TTL: cmp.Or(ttl, bounds.TTLDefault), Label: label, Identity: callerOf(ctx),
		}
	})
	if err != nil {
		return "", 0, err
	}
	return id.String(), a.(locktable.Opened).TTL, nil
}

// RenewSession renews a session, from now on with another TTL unless ttl is 0. It
// returns what the renewal is good for, counted from when it was sent.
func (c *Cell) RenewSession(ctx context.Context, session string, ttl time.Duration) (time.Duration, error) {
	id, ok := parseID(session)
	if !ok {
		return 0, c.gone("session")
	}
	r, err := c.renew(ctx, locktable.Renew{Session: id.hash(), TTL: ttl})
	return r.TTL, err
}

// RenewLease renews the session of a lease, as RenewSession does.
func (c *Cell) RenewLease(ctx context.Context, lease string, ttl time.Duration) (Renewal, error) {
	id, ok := parseID(lease)
	if !ok {
		return Renewal{}, c.gone("lease")
	}
	r, err := c.renew(ctx, locktable.Renew{Lease: id.hash(), TTL: ttl})
	if err != nil {
		return Renewal{}, err
	}
	l := Renewal{TTL: r.TTL, Breaking: r.Breaking, Reason: r.Reason}
	if own := id.ownSession(); own.hash() == r.Session {
		l.Session = own.String()
	} else {
		l.Session = c.Handle(r.Session)
	}
	return l, nil
}

func (c *Cell) renew(ctx context.Context, r locktable.Renew) (locktable.Renewed, error) {
	r.Identity = callerOf(ctx)
	a, err := c.ask(ctx, func(ref locktable.Ref) locktable.Command {
		r.Ref = ref
		return r
	})
	if err != nil {
		return locktable.Renewed{}, err
	}
	return a.(locktable.Renewed), nil
}

// CloseSession ends a session and all its leases. givenUp: its client has lost it.
func (c *Cell) CloseSession(ctx context.Context, session string, givenUp bool) error {
	return c.end(ctx, "session", session, func(ref locktable.Ref, id locktable.ID) locktable.Command {
		return locktable.Close{Ref: ref, Session: id, Identity: callerOf(ctx), GivenUp: givenUp}
	})
}

// Release ends a lease.
func (c *Cell) Release(ctx context.Context, lease string) error {
	return c.end(ctx, "lease", lease, func(ref locktable.Ref, id locktable.ID) locktable.Command {
		return locktable.Release{Ref: ref, Lease: id, Identity: callerOf(ctx)}
	})
}

// end has what an id names ended by a command.
func (c *Cell) end(ctx context.Context, what, id string, by func(locktable.Ref, locktable.ID) locktable.Command) error {
	secret, ok := parseID(id)
	if !ok {
		return c.gone(what)
	}
	_, err := c.ask(ctx, func(ref locktable.Ref) locktable.Command { return by(ref, secret.hash()) })
	return err
}

// gone answers for an id that cannot be anybody's.
func (c *Cell) gone(what string) error {
	return c.refused(locktable.Refused{
		Reason: locktable.Gone, Message: "no such " + what + ": a " + what + "'s id has 32 hex digits",
	})
}

// listWeight is what a listing weighs beside a command that is about one thing: it
// may show a thousand names, or a thousand who hold one and wait for it.
func listWeight(l locktable.List) int {
	n := bounds.PageMax
	switch {
	case l.Name != "" && l.WithoutQueue:
		n = 0
	case l.Name == "" && l.Limit > 0:
		n = min(l.Limit, bounds.PageMax)
	}
	return 1 + n/namesPerWeight
}

// namesPerWeight is how many names of a listing weigh as much as a command.
const namesPerWeight = 4

// List reads names that are held or waited for.
func (c *Cell) List(ctx context.Context, l locktable.List) (locktable.Page, error) {
	a, err := c.askBy(ctx, newCall(), listWeight(l), func(ref locktable.Ref) locktable.Command {
		l.Ref = ref
		return l
	})
	if err != nil {
		return locktable.Page{}, err
	}
	return a.(locktable.Page), nil
}

// Break asks the holder to let go, or ends its lease at once.
func (c *Cell) Break(ctx context.Context, b locktable.Break) (locktable.Broken, error) {
	b.Identity = callerOf(ctx)
	x := newCall()
	x.late = func(a locktable.Answer) { c.logBreak(b, a) }
	a, err := c.askBy(ctx, x, 1, func(ref locktable.Ref) locktable.Command {
		b.Ref = ref
		return b
	})
	if err != nil {
		return locktable.Broken{}, err
	}
	c.logBreak(b, a)
	return a.(locktable.Broken), nil
}

// logBreak writes down a break, which is durable by the time of its answer,
// whether its caller still waits for that or not.
func (c *Cell) logBreak(b locktable.Break, a locktable.Answer) {
	if done, ok := a.(locktable.Broken); ok {
		c.o.Logger.Info("break", "name", b.Name, "token", uint64(b.Token), "ended", done.Ended,
			"reason", b.Reason, "identity", b.Identity, "holder", done.Handle, "rides_on", done.RidesOn)
	}
}

// Status describes the cell. A server that is not the active one answers from
// what it knows, and says so. During the outage of a drill nothing can be confirmed, and
// it shows what was durable before.
func (c *Cell) Status(ctx context.Context) (Status, error) {
	s := Status{Info: c.Info(), Usage: *c.usage.Load(), RolledBack: c.rolledBack.Load()}
	s.Tight = s.Usage.Tight()
	t := c.serving()
	if t == nil {
		s.Epoch = 0 // that of an earlier tenure of this server
		s.Waits = c.waits()
		// A store that is silent leaves what was known last.
		asking, done := context.WithTimeout(ctx, c.o.ActiveTTL)
		defer done()
		if n, err := c.queryActive(asking); err == nil {
			s.ActiveLink, s.ActiveHTTP = n.Link, n.HTTP
		}
		if f, behind, ok := c.Following(); ok {
			s.Followed, s.Behind = f.Batch, behind
		}
		return s, nil
	}
	if s.Drill = t.drill.Load().Left(); s.Drill == 0 {
		if _, err := c.ask(ctx, func(ref locktable.Ref) locktable.Command { return locktable.Ping{Ref: ref} }); err != nil {
			return s, err
		}
	}
	p := t.counts.Load()
	s.Token, s.Sessions, s.Leases, s.Waiters, s.Batch = p.Counter, p.Sessions, p.Leases, p.Waiters, p.batch
	s.ByGrade, s.Riders, s.ClaimOnly = p.ByGrade, p.Riders, p.ClaimOnly
	ahead := int64(p.Counter) - int64(locktable.CounterLimit(c.o.Clock.Wall()))
	s.Ahead = time.Duration(float64(ahead) / (1 << 20) * float64(time.Second))
	return s, nil
}

// Handle is the public name of a session; empty while no tenure is served.
func (c *Cell) Handle(session locktable.ID) string {
	if t := c.serving(); t != nil {
		return locktable.Handle(t.secret, session)
	}
	return ""
}

// HandleOf is the public name of a session whose id is known; empty for what
// cannot be one.
func (c *Cell) HandleOf(session string) string {
	id, ok := parseID(session)
	if !ok {
		return ""
	}
	return c.Handle(id.hash())
}

// HandleOfLease is the public name of the session that a lease has to itself.
func (c *Cell) HandleOfLease(lease string) string {
	id, ok := parseID(lease)
	if !ok {
		return ""
	}
	return c.Handle(id.ownSession().hash())
}

// Acquire asks for a lease and waits for its turn as long as r.Wait says. A
// caller whose connection ends leaves nothing behind: its place in the queue is gone
// at once, and a lease granted meanwhile is released, unless a request id lets the
// caller come back for it. Then the place is kept for locktable.PlaceKept, passed over
// meanwhile, and a lease for its session's TTL.
//
// That goes for a caller that is seen to give up. An answer that is lost is not
// seen:
//
//  1. The grant is durable. Its answer is lost with the server, or in the network
//     behind it.
//  2. The lease has a session of its own: nobody knows the session's id, so nobody
//     renews it, and it ends within one TTL.
//  3. The lease belongs to a session of several: the session is renewed for the
//     sake of its other leases, and this one is held as long.
//
// With a request id its caller finds it again. Without one it is held to the end of the
// session, unless it is broken; a request of the session that meets it is told so.
// Nothing else tells a lost answer from one that is late: whatever a
// renewal says that its session holds, an acquire's answer may still be on its
// way on another connection, to a caller that will trust it.
func (c *Cell) Acquire(ctx context.Context, r AcquireRequest) (Lease, error) {
	l, err := c.acquire(ctx, r)
	return l, c.ownHolder(err, r)
}

// ownHolder adds to a refusal that the name is held in the session that asks: its
// caller waits for itself, perhaps for a lease whose answer was lost.
func (c *Cell) ownHolder(err error, r AcquireRequest) error {
	var no *RefusedError
	if r.Session == "" || !errors.As(err, &no) || no.Holder == nil || no.Holder.Handle != c.HandleOf(r.Session) {
		return err
	}
	own := *no
	own.OwnSession = true
	own.Message += "; the holder is a lease of this session: release it, or, when its answer was lost, " +
		"find it by repeating its request with the same request id, if it has one, break it by its token, or close the session"
	return &own
}

func (c *Cell) acquire(ctx context.Context, r AcquireRequest) (Lease, error) {
	if err := bounds.ValidWait(r.Wait); err != nil {
		return Lease{}, c.refused(locktable.Refused{Reason: locktable.Invalid, Message: err.Error()})
	}
	if err := bounds.ValidRequestID(r.RequestID); err != nil {
		return Lease{}, c.refused(locktable.Refused{Reason: locktable.Invalid, Message: err.Error()})
	}
	x := newCall()
	t := c.enter(x)
	defer c.forgetCall(x)
	if t == nil {
		return Lease{}, c.unavailable()
	}
	identity := callerOf(ctx)
	id, a, ok := r.command(t.cell, identity)
	if !ok {
		return Lease{}, c.gone("session")
	}
	a.Ref = x
	// With a request id it stays: the caller may have repeated its request on another
	// connection before the end of this one was seen, and trust the lease.
	x.late = func(late locktable.Answer) {
		if _, yes := late.(locktable.Granted); yes && r.RequestID == "" {
			t.intake.add(locktable.Release{Lease: id.hash(), Identity: identity})
		}
	}
	if r.Traced {
		t.traces.begin(x, []uint64{a.Number}, r.Received, c.o.Clock.Now())
		defer t.traces.forget(x)
	}
	refused, open := t.intake.single(r.QueuedMax, a)
	if !open {
		return Lease{}, c.unavailable()
	}
	if refused {
		return Lease{}, c.refused(locktable.Refused{
			Reason: locktable.Exhausted, Message: tooMuchQueued,
		})
	}
	answer, err := c.await(ctx, t, x, r)
	if err != nil {
		return Lease{}, err
	}
	g := answer.(locktable.Granted)
	if r.RequestID != "" {
		id = repeatable(t.cell, identity, r.RequestID, g.Salt)
	}
	l := Lease{ID: id.String(), Session: r.Session, Granted: g, Cell: t.cell, Trace: x.trace}
	if l.Session == "" {
		l.Session = id.ownSession().String()
	}
	return l, nil
}

// command makes the table's command of a request, and the id that the lease
// will have. ok is false when the session's id cannot be one.
func (r *AcquireRequest) command(cell, identity string) (id secretID, a locktable.Acquire, ok bool) {
	a = locktable.Acquire{
		Names: r.Names, Mode: r.Mode, Slots: r.Slots, Value: r.Value, LockDelay: r.LockDelay, Claims: r.Claims,
		RideThrough: r.RideThrough, Label: r.Label, Try: r.Wait == 0, Identity: identity,
	}
	if id = drawID(); r.RequestID != "" {
		a.RequestKey = requestKey(identity, r.RequestID)
		a.Salt = make([]byte, 16)
		rand.Read(a.Salt)
		id = repeatable(cell, identity, r.RequestID, a.Salt)
	}
	a.Lease = id.hash()
	if r.Session == "" {
		a.Own, a.TTL = id.ownSession().hash(), cmp.Or(r.TTL, bounds.TTLDefault)
		return id, a, true
	}
	session, ok := parseID(r.Session)
	a.Session = session.hash()
	return id, a, ok
}

// await waits for the answer to an acquire, for the end of its wait, or for
// ctx.
func (c *Cell) await(ctx context.Context, t *tenure, x *call, r AcquireRequest) (locktable.Answer, error) {
	timer := c.o.Clock.NewTimer()
	defer timer.Stop()
	over := r.Wait == 0
	if over {
		timer.Reset(c.answerMax())
	} else {
		timer.Reset(r.Wait)
	}
	for {
		select {
		case a := <-x.answer:
			if no, refused := a.(locktable.Refused); refused && over && no.Reason == locktable.Cancelled {
				return nil, c.stillHeld(ctx, r)
			}
			return a, c.errorOf(a)
		case <-timer.C():
			switch {
			case over && t.giveUp(x):
				return nil, c.unanswered()
			case over:
			case t.intake.withdraw(x):
				return nil, c.stillHeld(ctx, r)
			default:
				over = true
				t.intake.add(locktable.Cancel{Waiter: x})
				timer.Reset(c.answerMax())
			}
		case <-ctx.Done():
			if t.detachWaiter(ctx, x) {
				return nil, ctx.Err()
			}
			a := <-x.answer
			return a, c.errorOf(a)
		}
	}
}

// giveUp says that nobody waits for an acquire any more; false: its answer is
// there.
func (t *tenure) giveUp(x *call) bool {
	if !x.abandon() {
		return false
	}
	if !t.intake.withdraw(x) {
		t.intake.add(locktable.Cancel{Waiter: x})
	}
	return true
}

// detachWaiter says that the connection of an acquire has ended, whose place is kept if
// it has a request id; or that its caller may not wait any more, and is told so.
func (t *tenure) detachWaiter(ctx context.Context, x *call) bool {
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		return t.giveUp(x)
	}
	if !x.abandon() {
		return false
	}
	if !t.intake.withdraw(x) {
		t.intake.add(locktable.DetachWaiter{Waiter: x})
	}
	return true
}

// stillHeld is the answer to a wait that ended: it names the holder, and says whether the
// name is closed to the acquire.
func (c *Cell) stillHeld(ctx context.Context, r AcquireRequest) error {
	no := locktable.Refused{Reason: locktable.Held, Message: "not granted within " + r.Wait.String()}
	for _, name := range r.Names {
		p, err := c.List(ctx, locktable.List{Name: name, WithoutQueue: true})
		if err != nil || len(p.Locks) == 0 {
			continue
		}
		l := p.Locks[0]
		held, closed := len(l.Holders) > 0, l.ClaimOnlyFor > 0 && !r.Claims
		if !held && !closed {
			continue
		}
		no.Name = name
		if held {
			no.Holder = &l.Holders[0]
		}
		if closed {
			no.ClaimOnly = l.ClaimOnlyFor
		}
		switch {
		case held && closed:
			no.Message += locktable.AlsoClosed + locktable.ClaimOnlyText(l.ClaimOnlyFor)
		case closed:
			no.Message += fmt.Sprintf(": %q is %s", name, locktable.ClaimOnlyText(l.ClaimOnlyFor))
		}
		break
	}
	return c.refused(no)
}
