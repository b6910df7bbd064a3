package tables

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// model is what a table must be, in dumb lists: it does not decide, it follows
// events and answers, and says what of them cannot be.
type model struct {
	sessions map[string]*mSession
	leases   []*mLease
	waiters  []*mWaiter
	last     guard.Token
	// closedUntil is when a name's lock-delay is over, in real time.
	closedUntil map[string]time.Duration
	// claimOnly has the names that are closed to those that do not claim, and until when
	// in real time: as long as the log does not say that it is over.
	claimOnly map[string]time.Duration
	// real is the time, over all tenures.
	real time.Duration
}

type mSession struct {
	mTTL
	stream     locktable.Ref
	generation uint64
	finished   uint64
	own        bool
}

type mLease struct {
	token   guard.Token
	session string
	names   []string
	mode    locktable.Mode
	slots   uint32
	taken   []uint32
	fences  []guard.Token
	number  uint64
	delay   time.Duration
	claims  bool
	ride    time.Duration
	// over: its session has ended and nobody has taken it out yet.
	over bool
}

type mWaiter struct {
	// session is empty when the grant will open one.
	session string
	ref     locktable.Ref
	number  uint64
	names   []string
	mode    locktable.Mode
	slots   uint32
	delay   time.Duration
	claims  bool
	ride    time.Duration
	// told: that it waits for a name that is closed to those that do not claim.
	told     bool
	place    locktable.Place
	detached bool
	// asked is the request of one without a stream, kept the time from which on its
	// place may be gone while it is detached.
	asked locktable.Acquire
	kept  time.Duration
}

func newModel() *model {
	return &model{sessions: map[string]*mSession{}, closedUntil: map[string]time.Duration{}, claimOnly: map[string]time.Duration{}}
}

// passes reports whether a waiter may be granted a name although another waits.
func (m *model) passes(w, before *mWaiter) bool {
	if before == w || before.detached || m.shutOut(before) != "" {
		return true
	}
	if w.mode == locktable.Shared && before.mode == locktable.Shared {
		return true
	}
	later := before.place.Epoch > w.place.Epoch ||
		before.place.Epoch == w.place.Epoch && before.place.Sequence > w.place.Sequence
	return later || !slices.ContainsFunc(before.names, func(n string) bool { return slices.Contains(w.names, n) })
}

// shutOut is the first name that is closed to a waiter because it does not claim.
func (m *model) shutOut(w *mWaiter) string {
	for _, name := range w.names {
		if _, closed := m.claimOnly[name]; closed && !w.claims {
			return name
		}
	}
	return ""
}

// room says why a waiter cannot have its names as far as holders go; empty: it
// can.
func (m *model) room(w *mWaiter) string {
	if name := m.shutOut(w); name != "" {
		return name + " is closed to those that do not claim"
	}
	for _, name := range w.names {
		taken := 0
		for _, l := range m.leases {
			if l.over || !slices.Contains(l.names, name) {
				continue
			}
			taken++
			switch {
			case l.slots != w.slots:
				return name + " is used otherwise"
			case w.slots > 0:
			case w.mode != locktable.Shared || l.mode != locktable.Shared:
				return fmt.Sprintf("%s is held under %s", name, token(l.token))
			}
		}
		if w.slots > 0 && taken >= int(w.slots) {
			return name + " has no free slot"
		}
		if w.mode != locktable.Shared && m.closedUntil[name] > m.real {
			return fmt.Sprintf("%s is closed until %v", name, m.closedUntil[name])
		}
	}
	return ""
}

func (m *model) turn(w *mWaiter) string {
	for _, x := range m.waiters {
		if !m.passes(w, x) {
			return fmt.Sprintf("%v #%d waits before", x.ref, x.number)
		}
	}
	return ""
}

// granted checks one grant and takes it in. asked is who asked just now, for a
// grant without waiting.
func (m *model) granted(e *recordpb.Event, session string, asked *mWaiter) error {
	t := guard.Token(e.Token)
	if t <= m.last {
		return fmt.Errorf("I1: token %s after %s", token(t), token(m.last))
	}
	m.last = t
	s := m.sessions[session]
	if s == nil {
		return fmt.Errorf("I7: granted to %s, which does not live", session)
	}
	w := asked
	i := slices.IndexFunc(m.waiters, func(w *mWaiter) bool {
		if w.session == "" {
			return session == fmt.Sprint(w.ref)+".own"
		}
		return w.session == session && w.number == e.Request &&
			(e.Request != 0 || fmt.Sprint(w.ref)+".lease" == string(e.Salt))
	})
	if i >= 0 {
		w = m.waiters[i]
	}
	switch {
	case w == nil:
		return fmt.Errorf("granted to %s #%d, which did not ask", session, e.Request)
	case w.detached:
		return fmt.Errorf("granted to %s #%d, which is detached", session, e.Request)
	}
	if why := m.room(w); why != "" {
		return fmt.Errorf("I2: %s #%d is granted and %s", session, e.Request, why)
	}
	if why := m.turn(w); why != "" {
		return fmt.Errorf("order: %s #%d is granted and %s", session, e.Request, why)
	}
	if i >= 0 {
		m.waiters = slices.Delete(m.waiters, i, i+1)
	}
	l := &mLease{
		token: t, session: session, mode: w.mode, slots: w.slots, number: e.Request, delay: time.Duration(e.LockDelayNano),
		claims: e.Claims, ride: time.Duration(e.RideThroughNano),
	}
	if l.claims != w.claims || l.ride != w.ride || (l.ride > 0) != (e.Kind == recordpb.Kind_KIND_GRANTED_RIDER) {
		return fmt.Errorf("claims: %v and a ride of %v are granted as %v to one that asked for %v and %v",
			l.claims, l.ride, e.Kind, w.claims, w.ride)
	}
	for _, g := range e.Grants {
		want := t
		for _, o := range m.leases {
			at := slices.Index(o.names, g.Name)
			if at < 0 || o.over {
				continue
			}
			if w.mode == locktable.Shared {
				want = o.fences[at]
			}
			if g.Slot > 0 && o.taken[at] == g.Slot {
				return fmt.Errorf("slot %d of %s is taken", g.Slot, g.Name)
			}
		}
		if guard.Token(g.Fence) != want {
			return fmt.Errorf("fence %s of %s where %s was expected", token(guard.Token(g.Fence)), g.Name, token(want))
		}
		if w.slots > 0 && (g.Slot < 1 || g.Slot > w.slots) {
			return fmt.Errorf("slot %d of %d", g.Slot, w.slots)
		}
		l.names, l.fences, l.taken = append(l.names, g.Name), append(l.fences, want), append(l.taken, g.Slot)
	}
	if !slices.Equal(l.names, w.names) {
		return fmt.Errorf("%v granted where %v was asked for", l.names, w.names)
	}
	m.leases = append(m.leases, l)
	return nil
}

func (m *model) ended(e *recordpb.Event, session string) error {
	i := slices.IndexFunc(m.leases, func(l *mLease) bool { return l.token == guard.Token(e.Token) })
	if i < 0 || m.leases[i].over {
		return fmt.Errorf("%s ended twice", token(guard.Token(e.Token)))
	}
	if e.Forced {
		m.close(m.leases[i])
	}
	m.leases = slices.Delete(m.leases, i, i+1)
	if m.sessions[session].own {
		delete(m.sessions, session)
	}
	return nil
}

// close begins a lock-delay, and the time in which the name is claim-only; the table may
// count them from later on.
func (m *model) close(l *mLease) {
	for _, n := range l.names {
		if l.ride > 0 {
			m.claimOnly[n] = max(m.claimOnly[n], m.real+l.ride)
		}
		if l.delay > 0 {
			m.closedUntil[n] = max(m.closedUntil[n], m.real+l.delay)
		}
	}
}

func (m *model) sessionEnded(session string, expired bool) error {
	s := m.sessions[session]
	if s == nil {
		return fmt.Errorf("%s ended twice", session)
	}
	if expired && m.real < s.until+locktable.SuspectFor {
		return fmt.Errorf("I5: %s expired %v before the end of what it was promised", session, s.until-m.real)
	}
	if expired && slices.ContainsFunc(m.waiters, func(w *mWaiter) bool { return w.session == session && w.number == 0 && !w.detached }) {
		return fmt.Errorf("%s expired while a connection waits for it", session)
	}
	delete(m.sessions, session)
	for _, l := range m.leases {
		if l.session == session {
			l.over = true
			if expired {
				m.close(l)
			}
		}
	}
	m.waiters = slices.DeleteFunc(m.waiters, func(w *mWaiter) bool { return w.session == session })
	return nil
}

// claimOnlyOver checks that a name is opened again, and not too early.
func (m *model) claimOnlyOver(name string) error {
	until, closed := m.claimOnly[name]
	switch {
	case !closed:
		return fmt.Errorf("%s was not claim-only", name)
	case m.real < until:
		return fmt.Errorf("%s is no longer claim-only %v too early", name, until-m.real)
	}
	delete(m.claimOnly, name)
	for _, w := range m.waiters {
		w.told = w.told && m.shutOut(w) != ""
	}
	return nil
}

// untold says which waiter does not know why it waits.
func (m *model) untold() error {
	for _, w := range m.waiters {
		if name := m.shutOut(w); name != "" && !w.detached && !w.told {
			return fmt.Errorf("%v #%d was not told that %s is claim-only", w.ref, w.number, name)
		}
	}
	return nil
}

// quiet says what is left undone when the table says that nothing is to be done.
// Names that are closed are left out.
func (m *model) quiet(closed []string) error {
	for _, w := range m.waiters {
		if slices.ContainsFunc(closed, func(n string) bool { return slices.Contains(w.names, n) }) {
			continue
		}
		if !w.detached && m.room(w) == "" && m.turn(w) == "" {
			return fmt.Errorf("I10: %v #%d waits for %v, which are free", w.ref, w.number, w.names)
		}
	}
	return nil
}
