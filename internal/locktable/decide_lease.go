package locktable

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
)

const leaseGone = "no such lease: it was released, expired, was broken, or never was"

func (c Acquire) decide(t *Table, now Now, d *Decided) {
	if err := c.valid(); err != nil {
		d.refuse(c.Ref, c.Number, Invalid, err.Error())
		return
	}
	args := c.fingerprint()
	s, answered := t.asker(now, c, args, d)
	if answered || t.repeated(c, args, d) {
		return
	}
	if why := t.crowded(s, c.Names[0]); why != "" {
		d.refuse(c.Ref, c.Number, Exhausted, why)
		return
	}
	w := &waiter{ref: c.Ref, session: s, acquire: c, args: args, asked: now.High, place: c.Ticket}
	if w.place == (Place{}) || w.place.Epoch > t.Epoch() {
		t.arrivals++
		w.place = Place{t.Epoch(), t.arrivals}
	}
	w.lock = t.lockOf(c.Names[0], true)
	t.settle(w.lock)
	first := w.lock.next()
	free := len(w.lock.holders) == 0 && (first == nil || w.place.compare(first.place) < 0)
	switch {
	case free && t.mayGrant(now):
		t.grant(now, w, d)
	case c.Try && !free:
		d.reply(c.Ref, c.Number, t.held(now, w.lock))
	default:
		t.join(w)
		if free {
			t.starved = append(t.starved, w.lock)
		}
		d.reply(c.Ref, c.Number, Waiting{Place: w.place})
	}
	t.forget(w.lock)
}

// asker finds the session that a request is made for; nil when it shall have
// one of its own. answered: there is nothing more to be done.
func (t *Table) asker(now Now, c Acquire, args uint64, d *Decided) (s *session, answered bool) {
	if c.Session == (ID{}) {
		return nil, false
	}
	if c.Number == 0 {
		if s = t.sessions[c.Session]; s == nil {
			d.refuse(c.Ref, 0, Gone, sessionGone)
			return nil, true
		}
		t.touch(now, s, d)
		return s, false
	}
	if s = t.onStream(c.Session, c.Generation, c.Ref, d); s == nil {
		return nil, true
	}
	return s, t.known(s, c, args, d)
}

// known answers a request of a stream that was asked before.
func (t *Table) known(s *session, c Acquire, args uint64, d *Decided) bool {
	low := max(s.finished, s.finishedUp)
	_, done := s.done[c.Number]
	_, cancelled := s.cancelled[c.Number]
	switch l, w := s.granted[c.Number], s.waiting[c.Number]; {
	case c.Number < low || done:
		d.refuse(c.Ref, c.Number, Gone, fmt.Sprintf("request %d is finished", c.Number))
	case c.Number-low > NumbersMax:
		d.refuse(c.Ref, c.Number, Invalid, fmt.Sprintf(
			"request %d is more than %d above the lowest unfinished one, %d", c.Number, NumbersMax, low))
	case cancelled:
		d.refuse(c.Ref, c.Number, Cancelled, "cancelled by the client")
	case l != nil && l.args != args || w != nil && w.args != args:
		d.refuse(c.Ref, c.Number, Conflict, fmt.Sprintf("request %d was asked before with other arguments", c.Number))
	case l != nil:
		d.reply(c.Ref, c.Number, granted(l))
	case w != nil:
		w.ref = c.Ref
		d.reply(c.Ref, c.Number, Waiting{Place: w.place})
	default:
		return false
	}
	return true
}

// repeated answers a request without a stream whose request id is known. A
// repeat while the first still waits takes its place: its caller is gone, or
// will be told.
func (t *Table) repeated(c Acquire, args uint64, d *Decided) bool {
	if c.RequestKey == (ID{}) {
		return false
	}
	const other = "the request id was used before with other arguments"
	if l := t.outcomes.live[c.RequestKey]; l != nil && !l.session.over {
		if l.args != args {
			d.refuse(c.Ref, 0, Conflict, other)
		} else {
			d.reply(c.Ref, 0, granted(l))
		}
		return true
	}
	if w := t.outcomes.waiting[c.RequestKey]; w != nil {
		if w.args != args {
			d.refuse(c.Ref, 0, Conflict, other)
			return true
		}
		d.refuse(w.ref, 0, Cancelled, "the request was repeated on another connection")
		delete(t.unary, w.ref)
		w.ref, w.acquire.Ref = c.Ref, c.Ref
		w.acquire.Lease, w.acquire.Own, w.acquire.Salt = c.Lease, c.Own, c.Salt
		t.unary[w.ref] = w
		d.reply(c.Ref, 0, Waiting{Place: w.place})
		return true
	}
	if x := t.outcomes.ended[c.RequestKey]; x != nil || t.outcomes.live[c.RequestKey] != nil {
		d.refuse(c.Ref, 0, Gone, "the lease of this request id has ended")
		return true
	}
	return false
}

// crowded says which limit a new lease of the session, or waiter for the name,
// would pass.
func (t *Table) crowded(s *session, name string) string {
	l := t.locks[name]
	switch {
	case s != nil && s.leases.n >= t.limits.LeasesPerSession:
		return fmt.Sprintf("the session holds %d leases, its limit", s.leases.n)
	case len(t.leases) >= t.limits.Leases:
		return fmt.Sprintf("the cell has %d leases, its limit", len(t.leases))
	case s == nil && len(t.sessions) >= t.limits.Sessions:
		return fmt.Sprintf("the cell has %d sessions, its limit", len(t.sessions))
	case t.waiters >= t.limits.Waiters:
		return fmt.Sprintf("the cell has %d waiters, its limit", t.waiters)
	case l != nil && len(l.queue) >= t.limits.WaitersPerName:
		return fmt.Sprintf("the name has %d waiters, its limit", len(l.queue))
	}
	return ""
}

func (t *Table) held(now Now, l *lock) Refused {
	r := Refused{Reason: Held, Message: fmt.Sprintf("%q is held", l.name)}
	if len(l.holders) > 0 {
		h := t.holder(now, l.holders[0])
		r.Holder = &h
	}
	return r
}

func (c Acquire) valid() error {
	if len(c.Names) != 1 {
		return fmt.Errorf("%d names were given; one was expected", len(c.Names))
	}
	if err := ValidName(c.Names[0]); err != nil {
		return err
	}
	if c.Session == (ID{}) {
		if err := ValidTTL(c.TTL); err != nil {
			return err
		}
	}
	return ValidLabel(c.Label)
}

// fingerprint tells requests with other arguments apart.
func (c Acquire) fingerprint() uint64 {
	h := fnv.New64a()
	var n [8]byte
	text := func(s string) {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	for _, name := range c.Names {
		text(name)
	}
	text(c.Label)
	h.Write(c.Session[:])
	binary.LittleEndian.PutUint64(n[:], uint64(c.TTL))
	h.Write(n[:])
	return h.Sum64()
}

func (c Cancel) decide(t *Table, now Now, d *Decided) {
	if c.Waiter != nil {
		if w := t.unary[c.Waiter]; w != nil {
			t.leave(now, w, d)
			d.refuse(w.ref, 0, Cancelled, "cancelled by the client")
		}
		return
	}
	s := t.sessions[c.Session]
	if s == nil || s.generation != c.Generation {
		return
	}
	if w := s.waiting[c.Number]; w != nil {
		ref := w.ref
		t.leave(now, w, d)
		d.refuse(ref, c.Number, Cancelled, "cancelled by the client")
	} else if l := s.granted[c.Number]; l != nil {
		t.release(now, l, d)
	} else if low := max(s.finished, s.finishedUp); c.Number >= low && c.Number-low <= NumbersMax {
		put(&s.cancelled, c.Number, struct{}{})
	}
}

func (c Release) decide(t *Table, now Now, d *Decided) {
	var l *lease
	if c.Lease != (ID{}) {
		l = t.byID[c.Lease]
	} else if s := t.onStream(c.Session, c.Generation, c.Ref, d); s != nil {
		l = s.holding(t, c.Token)
	} else {
		return
	}
	if l == nil || l.session.over {
		d.refuse(c.Ref, c.Number, Gone, leaseGone)
		return
	}
	t.release(now, l, d)
	d.reply(c.Ref, c.Number, Done{})
}

func (c Check) decide(t *Table, _ Now, d *Decided) {
	s := t.onStream(c.Session, c.Generation, c.Ref, d)
	if s == nil {
		return
	}
	if s.holding(t, c.Token) == nil {
		d.refuse(c.Ref, c.Number, Gone, leaseGone)
		return
	}
	d.reply(c.Ref, c.Number, Done{})
}

// holding finds the session's own lease with a token.
func (s *session) holding(t *Table, token guard.Token) *lease {
	if l := t.leases[token]; l != nil && l.session == s {
		return l
	}
	return nil
}

func (c Break) decide(t *Table, now Now, d *Decided) {
	if err := ValidReason(c.Reason); err != nil {
		d.refuse(c.Ref, 0, Invalid, err.Error())
		return
	}
	k := t.locks[c.Name]
	if k != nil {
		t.settle(k)
	}
	if k == nil || k.holderToken() != c.Token {
		d.refuse(c.Ref, 0, TokenMismatch, mismatch(k, c))
		return
	}
	l := k.holders[0]
	stream := l.session.stream
	switch {
	case c.Now:
		t.conclude(now, l, &recordpb.Event{
			Kind: recordpb.Kind_KIND_BROKEN, Forced: true, Reason: c.Reason, Identity: c.Identity,
		}, d)
		d.reply(stream, 0, Notice{Token: l.token, Ended: true, Reason: c.Reason})
	case l.breaking == nil:
		t.emit(d, &recordpb.Event{
			Kind: recordpb.Kind_KIND_BREAKING, Session: l.session.id.bytes(), Token: uint64(l.token),
			Reason: c.Reason, Identity: c.Identity, AtUnixNano: now.Wall.UnixNano(),
		})
		d.reply(stream, 0, Notice{Token: l.token, Reason: c.Reason})
	}
	d.reply(c.Ref, 0, Broken{Ended: c.Now})
}

func mismatch(k *lock, c Break) string {
	if k == nil || len(k.holders) == 0 {
		return fmt.Sprintf("%q is free", c.Name)
	}
	return fmt.Sprintf("%q is held under another token than %d", c.Name, c.Token)
}

func (c List) decide(t *Table, now Now, d *Decided) {
	if c.Name != "" {
		var p Page
		if k := t.locks[c.Name]; k != nil {
			t.settle(k)
			p.Locks = append(p.Locks, t.lockView(now, k, c))
		}
		d.reply(c.Ref, 0, p)
		return
	}
	if c.Limit <= 0 || c.Limit > PageMax {
		c.Limit = PageMax
	}
	if c.After != "" && !strings.HasPrefix(c.After, c.Prefix) {
		d.refuse(c.Ref, 0, Invalid, "the page token is of another prefix")
		return
	}
	var p Page
	t.names.after(c.Prefix, c.After, func(name string) bool {
		if len(p.Locks) == c.Limit {
			p.Next = p.Locks[len(p.Locks)-1].Name
			return false
		}
		p.Locks = append(p.Locks, t.lockView(now, t.locks[name], c))
		return true
	})
	d.reply(c.Ref, 0, p)
}

// waitersShown bounds the waiters of one name in a listing.
const waitersShown = 1000

func (t *Table) lockView(now Now, k *lock, c List) Lock {
	v := Lock{Name: k.name}
	for _, l := range k.holders {
		if !l.session.over {
			v.Holders = append(v.Holders, t.holder(now, l))
		}
	}
	if c.WithoutQueue {
		return v
	}
	for _, w := range k.queue[:min(len(k.queue), waitersShown)] {
		x := Waiter{Label: w.acquire.Label}
		if w.session != nil {
			x.Handle = Handle(t.secret, w.session.id)
			if x.Label == "" {
				x.Label = w.session.label
			}
		}
		v.Waiters = append(v.Waiters, x)
	}
	return v
}
