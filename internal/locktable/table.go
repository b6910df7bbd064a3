package locktable

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

// Decided gathers what decisions led to. The caller takes the lists and
// releases the answers when the events are durable.
type Decided struct {
	Events  []*recordpb.Event
	Replies []Reply
	// Changed are the names whose listing or observers the events change, in any order,
	// some of them twice. Unnamed says that there are others, too many to list.
	Changed []string
	Unnamed bool
}

func (d *Decided) reply(to Ref, number uint64, a Answer) {
	if to != nil {
		d.Replies = append(d.Replies, Reply{To: to, Number: number, Answer: a})
	}
}

func (d *Decided) refuse(to Ref, number uint64, why Reason, message string) {
	d.reply(to, number, Refused{Reason: why, Message: message})
}

// Table is the lock table of one cell.
type Table struct {
	limits bounds.Limits

	// Decided.
	cell     string
	secret   []byte
	counter  guard.Token
	tenures  []tenure
	sessions map[ID]*session
	locks    map[string]*lock
	leases   map[guard.Token]*lease
	byID     map[ID]*lease
	outcomes outcomes

	// Not decided.
	names    index
	unary    map[Ref]*waiter
	waiters  int
	arrivals uint64
	due      agenda
	suspects suspects
	ended    []*session
	// ends counts the sessions that were put there.
	ends       uint64
	deferred   []*lock
	toServe    []*lock
	serving    bool
	rolledBack bool
	// total is what all take up, usage what each identity with a name does.
	total usage
	usage map[string]usage
	// works counts the turns, from 1; untold are the names whose observers are to be
	// told at the end of this one.
	works            uint64
	pendingObservers []*lock
	// byGrade counts all leases, riders those that may ride, claimOnly the names that are
	// claim-only.
	byGrade           ByGrade
	riders, claimOnly int
	// returned are the sessions whose leases had been riding when they returned, and for
	// how long, until they are heard again.
	returned map[*session]time.Duration
	// endsTo receives what ends; nil: nothing does.
	endsTo Ref
	// roll follows sessions for somebody; nil: it follows none.
	roll *roll
}

// tenure: the counter's opening value and the last token granted in it, the
// opening value where there was none.
type tenure struct {
	epoch        uint64
	opened, last guard.Token
}

// session is a client's liveness.
type session struct {
	// Decided.
	id              ID
	ttl             time.Duration
	label, identity string
	own             bool
	opened          int64
	silent          bool
	left            time.Duration
	finished        uint64
	done            map[uint64]struct{}
	granted         map[uint64]*lease
	leases          leaseList
	over, expired   bool

	// Not decided. Times are usable time of this tenure.
	stream     Ref
	generation uint64
	finishedUp uint64
	waiting    map[uint64]*waiter
	unary      map[*waiter]struct{}
	// connected counts those of unary whose connection stands.
	connected int
	observed  map[string]*observer
	cancelled map[uint64]struct{}
	deadline  time.Duration
	// lower is the TTL that is asked for while a higher one stands in the log, 0:
	// none; promised is when the last promise above it has run out. See ttl.go.
	lower, promised time.Duration
	// asked is the renewal of this stream by which a TTL was asked for last.
	asked    uint64
	quiet    time.Duration
	silentAt time.Duration
	timed    bool
	suspect  uint64
	// slot is the place on the agenda, from 1; 0: none. So is a closure's.
	slot int
	// handle is the public name, once it was asked for.
	handle string
}

// lease is one grant. All but its links is fixed once it is granted: a snapshot
// may read it while the table goes on.
type lease struct {
	token    guard.Token
	session  *session
	first    hold
	mode     Mode
	claims   bool
	request  uint64
	args     uint64
	since    int64
	extra    *extra
	breaking *breaking

	prev, next *lease
}

// extra is what few leases have. id is that of a lease without a stream.
type extra struct {
	id         ID
	label      string
	more       []hold
	slots      uint32
	value      []byte
	delay      time.Duration
	ride       time.Duration
	requestKey ID
	salt       []byte
}

// none is the extra of most leases.
var none = &extra{}

// hold is one name of a lease.
type hold struct {
	lock  *lock
	fence guard.Token
	slot  uint32
}

type breaking struct {
	reason, identity string
	at               int64
}

// lock is a name that is held, waited for, closed or observed. While it is held
// or waited for it is used with one number of slots, 0 for a lock; the holders
// of slots are in the order of their slots, others in that of their tokens.
type lock struct {
	name     string
	slots    uint32
	deferred bool
	holders  []*lease
	// cleanedAt is how many sessions had ended when the holders were last looked
	// through for theirs.
	cleanedAt uint64
	// contention is uncontended until contended() is called.
	*contention
}

// contention is the part of a lock that few need: of a million that are held, few are waited
// for, and this keeps the others small.
type contention struct {
	queue []*waiter
	// closed is the closure by a lock-delay.
	closed    *closure
	claimOnly *closure
	observers []*observer
	// shown is the first holder that the observers were last told of, and told how
	// often they were told in the turn turns. untold says that there is a later change,
	// which the end of the turn tells them.
	shown        guard.Token
	notified     int
	notifiedTurn uint64
	pending      bool
	// gone are shared holders that are none any more and stand in their list; the
	// first is never one of them. See without.
	gone map[*lease]struct{}
	// barred: bar is known; see barrier.
	barred bool
	bar    *waiter
}

// uncontended is shared by all locks without waiters or observers. It is never written.
var uncontended = &contention{}

// contended returns the lock's own contention, which it makes if needed.
func (l *lock) contended() *contention {
	if l.contention == uncontended {
		l.contention = &contention{}
	}
	return l.contention
}

// observer is a session that observes a name; at is its place among the others.
type observer struct {
	s    *session
	ref  Ref
	lock *lock
	at   int
}

// New returns the empty table.
func New(limits bounds.Limits) *Table {
	return &Table{
		limits:   limits,
		sessions: map[ID]*session{},
		locks:    map[string]*lock{},
		leases:   map[guard.Token]*lease{},
		byID:     map[ID]*lease{},
		outcomes: newOutcomes(),
		unary:    map[Ref]*waiter{},
		works:    1,
	}
}

// Decide carries out one command: decided events and answers are added to d.
func (t *Table) Decide(now Now, c Command, d *Decided) { c.decide(t, now, d) }

// Cell is the cell's id.
func (t *Table) Cell() string { return t.cell }

// Secret is 32 random bytes that only servers of the cell know.
func (t *Table) Secret() []byte { return t.secret }

// Epoch is the present tenure's; 0 before the first.
func (t *Table) Epoch() uint64 {
	if len(t.tenures) == 0 {
		return 0
	}
	return t.tenures[len(t.tenures)-1].epoch
}

// Counts says how much the table holds.
type Counts struct {
	Sessions, Leases, Waiters int
	// Names that are held, waited for, closed or observed.
	Names int
	// ByGrade counts the leases by grade, Riders those that may ride.
	ByGrade ByGrade
	Riders  int
	// ClaimOnly counts the names that are closed to acquires that do not claim.
	ClaimOnly int
	// Counter is the highest token that may have been granted.
	Counter guard.Token
	// RolledBack: a client reported a token that a lost log had granted.
	RolledBack bool
}

// Counts says how much the table holds now.
func (t *Table) Counts() Counts {
	return Counts{
		Sessions: len(t.sessions), Leases: len(t.leases), Waiters: t.waiters, Names: len(t.locks),
		ByGrade: t.byGrade, Riders: t.riders, ClaimOnly: t.claimOnly,
		Counter: t.counter, RolledBack: t.rolledBack,
	}
}

// Handle is the public name of a session: it tells sessions apart and cannot be
// used to act on one. secret is the cell's.
func Handle(secret []byte, id ID) string {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("handle"))
	m.Write(id[:])
	return hex.EncodeToString(m.Sum(nil)[:8])
}

// CounterLimit is the value that grants must not raise the counter above at the given
// time: unix seconds × 2^20, finely. It stays between 0 and guard.Max, however
// wrong the clock is.
func CounterLimit(wall time.Time) guard.Token {
	s := wall.Unix()
	switch {
	case s < 0:
		return 0
	case s >= int64(guard.Max>>20):
		return guard.Max
	}
	return guard.Token(uint64(s)<<20 + uint64(wall.Nanosecond())<<20/1e9)
}

// lockOf returns the record of a name, making it when asked to.
func (t *Table) lockOf(name string, make bool) *lock {
	l := t.locks[name]
	if l == nil && make {
		l = &lock{name: name, contention: uncontended}
		t.locks[name] = l
		t.names.add(name)
	}
	return l
}

// idle reports whether a name is neither held nor waited for.
func (l *lock) idle() bool { return len(l.holders) == 0 && len(l.queue) == 0 }

// unused reports whether a name may be used with another number of slots than before:
// nobody holds it or waits for it, and none of its riders may be going on. A lock and each
// slot are resources of their own to a guard, so a claim of one does not stop a rider of
// another:
//
//  1. A rides under the lock n. Its session expires.
//  2. B asks for one of two slots of n, is granted slot 1, and claims that. It reads.
//  3. A writes under n, which nobody has claimed since.
func (l *lock) unused() bool { return l.idle() && l.claimOnly == nil }

// forget drops the record of a name that nothing is to be known of.
func (t *Table) forget(l *lock) {
	if l.idle() && l.closed == nil && l.claimOnly == nil && len(l.observers) == 0 && t.locks[l.name] == l {
		delete(t.locks, l.name)
		t.names.remove(l.name)
	}
}

// stale reports whether there may be a waiter that could be granted the name: the work
// list has not reached a holder that is over, or the clock's line blocked the grant. In
// all other cases a name is served when something changes.
func (t *Table) stale(l *lock) bool {
	if l.deferred || t.noneEnded(l) {
		return l.deferred
	}
	for h := range l.live() {
		if h.session.over {
			return true
		}
	}
	return false
}

// noneEnded reports whether no holder of a name can have ended: none was left when
// they were last looked through, and no session with leases has ended since.
func (t *Table) noneEnded(l *lock) bool { return len(t.ended) == 0 || l.cleanedAt == t.ends }

// removeEnded removes holders whose session ended but whose turn on the work list has
// not come. It returns their other names, which are free as well and which the work
// list will not visit.
func (t *Table) removeEnded(l *lock) (others []*lock) {
	if t.noneEnded(l) {
		return nil
	}
	l.cleanedAt = t.ends
	var over []*lease
	l.compact()
	l.holders = slices.DeleteFunc(l.holders, func(h *lease) bool {
		if h.session.over {
			over = append(over, h)
		}
		return h.session.over
	})
	for _, h := range over {
		t.drop(h, false)
		h.holds(func(x *hold) {
			if x.lock != l {
				others = append(others, x.lock)
				t.forget(x.lock)
			}
		})
	}
	return others
}

// holds visits the names of a lease.
func (l *lease) holds(visit func(h *hold)) {
	visit(&l.first)
	for i := range l.extra.more {
		visit(&l.extra.more[i])
	}
}

// on finds the lease's hold of a name that it holds.
func (l *lease) on(k *lock) *hold {
	if l.first.lock == k {
		return &l.first
	}
	for i := range l.extra.more {
		if h := &l.extra.more[i]; h.lock == k {
			return h
		}
	}
	panic("locktable: " + k.name + " has a holder that does not hold it")
}

// leaseList is the leases of a session in the order of their grants.
type leaseList struct {
	head, tail *lease
	n          int
}

func (s *leaseList) push(l *lease) {
	l.prev = s.tail
	if s.tail != nil {
		s.tail.next = l
	} else {
		s.head = l
	}
	s.tail = l
	s.n++
}

func (s *leaseList) remove(l *lease) {
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		s.head = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	} else {
		s.tail = l.prev
	}
	l.prev, l.next = nil, nil
	s.n--
}
