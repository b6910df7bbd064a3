package locktable

import (
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// namesOnRoll bounds the names of a session's leases that a RollEntry tells.
const namesOnRoll = 8

// CallRoll notes which sessions are open and what they hold, and tells To what becomes of
// them: of each that expires or that its client gives up, and, from AwaitRoll on, of each
// that is heard from and rode. It takes the place of an earlier roll.
type CallRoll struct {
	// Ref receives RollCalled.
	Ref Ref
	// To receives RollEntry answers, and RollOver as the last one.
	To Ref
}

// AwaitRoll begins to wait for the sessions of To's roll.
type AwaitRoll struct{ To Ref }

// EndRoll ends To's roll: the sessions that have not been heard from by now are missing.
type EndRoll struct{ To Ref }

// RollCalled answers CallRoll.
type RollCalled struct {
	// Sessions that are open, and the longest of their TTLs.
	Sessions   int
	LongestTTL time.Duration
}

// RollEntry tells of one session of a roll.
type RollEntry struct {
	// Handle, Label and Identity are the session's.
	Handle, Label, Identity string
	// Leases counts the leases that the session had when the roll was called; of one that
	// rode, those that may ride. Names are the first namesOnRoll of their names.
	Leases int
	Names  []string
	// Lost: the session expired, or its client gave it up. Otherwise it was heard from,
	// and rode for so long.
	Lost bool
	Rode time.Duration
}

// RollOver is the end of a roll. Returned sessions were heard from; Missing ones were not,
// nor have they ended.
type RollOver struct{ Returned, Missing int }

func (RollCalled) answer() {}
func (RollEntry) answer()  {}
func (RollOver) answer()   {}

// roll follows the sessions that were open at one moment. It is not part of the state.
type roll struct {
	to Ref
	// open are those that have not ended, nor been heard from since awaited, with what
	// they held.
	open     map[*session]held
	returned int
	awaited  bool
	// awaitedAt is when awaiting began.
	awaitedAt time.Time
	// riding are those whose client said last that it rides.
	riding map[*session]ride
}

// held is what a session held when the roll was called.
type held struct {
	leases int
	names  []string
}

// ride is how long a session had been riding at a time.
type ride struct {
	rode time.Duration
	at   time.Time
}

func (c CallRoll) decide(t *Table, _ Now, d *Decided) {
	r := &roll{to: c.To, open: make(map[*session]held, len(t.sessions)), riding: map[*session]ride{}}
	var longest time.Duration
	for _, s := range t.sessions { //tidy:unordered a set and a maximum
		r.open[s] = heldBy(s, func(*lease) bool { return true })
		longest = max(longest, s.ttl)
	}
	t.roll = r
	d.reply(c.Ref, 0, RollCalled{Sessions: len(r.open), LongestTTL: longest})
}

func (c AwaitRoll) decide(t *Table, now Now, _ *Decided) {
	if r := t.roll; r != nil && r.to == c.To {
		r.awaited, r.awaitedAt = true, now.Wall
	}
}

func (c EndRoll) decide(t *Table, _ Now, d *Decided) {
	if r := t.roll; r != nil && r.to == c.To {
		d.reply(r.to, 0, RollOver{Returned: r.returned, Missing: len(r.open)})
		t.roll = nil
	}
}

// rides notes what a greeting says: a session has been riding for so long.
func (r *roll) rides(now Now, s *session, rode time.Duration) {
	if r == nil {
		return
	}
	delete(r.riding, s)
	if _, on := r.open[s]; on && rode > 0 {
		r.riding[s] = ride{min(rode, bounds.RideThroughMax), now.Wall}
	}
}

// heard notes that a session was heard from.
func (r *roll) heard(t *Table, s *session, d *Decided) {
	if r == nil || !r.awaited {
		return
	}
	if _, on := r.open[s]; on {
		r.returned++
	}
	if x, rode := r.riding[s]; rode {
		e := t.rollEntry(s, heldBy(s, func(l *lease) bool { return l.extra.ride > 0 }))
		// It rode on until it was answered, and no answer left before awaiting began.
		e.Rode = x.rode + max(r.awaitedAt.Sub(x.at), 0)
		d.reply(r.to, 0, e)
	}
	r.remove(s)
}

// loses notes that a session is about to expire, or is given up.
func (r *roll) loses(t *Table, s *session, d *Decided) {
	if r == nil {
		return
	}
	if had, on := r.open[s]; on {
		e := t.rollEntry(s, had)
		e.Lost = true
		d.reply(r.to, 0, e)
	}
}

// remove notes that a session need not be waited for: it was heard from, or has ended.
func (r *roll) remove(s *session) {
	if r != nil {
		delete(r.open, s)
		delete(r.riding, s)
	}
}

func (t *Table) rollEntry(s *session, had held) RollEntry {
	return RollEntry{Handle: t.handle(s), Label: s.label, Identity: s.identity, Leases: had.leases, Names: had.names}
}

// heldBy is what a session holds now, of leases that are of interest.
func heldBy(s *session, of func(*lease) bool) (all held) {
	for l := s.leases.head; l != nil; l = l.next {
		if !of(l) {
			continue
		}
		all.leases++
		l.holds(func(h *hold) {
			if len(all.names) < namesOnRoll {
				all.names = append(all.names, h.lock.name)
			}
		})
	}
	return all
}

// finishRoll ends a roll on which nobody is left.
func (t *Table) finishRoll(d *Decided) {
	if r := t.roll; r != nil && r.awaited && len(r.open) == 0 {
		d.reply(r.to, 0, RollOver{Returned: r.returned})
		t.roll = nil
	}
}
