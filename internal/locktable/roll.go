package locktable

import "time"

// namesOnRoll bounds the names of a session's leases that a RollEntry tells.
const namesOnRoll = 8

// CallRoll notes which sessions are open, and tells To what becomes of them: of each that
// expires, and, from AwaitRoll on, of each that is heard from and rode. It takes the place
// of an earlier roll.
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
	// Leases counts the leases of the session; of one that rode, those that may ride.
	// Names are the first namesOnRoll of their names.
	Leases int
	Names  []string
	// Lost: the session expired. Otherwise it was heard from, and rode for so long.
	Lost bool
	Rode time.Duration
}

// RollOver is the end of a roll. Missing sessions were neither heard from, nor have ended.
type RollOver struct{ Missing int }

func (RollCalled) answer() {}
func (RollEntry) answer()  {}
func (RollOver) answer()   {}

// roll follows the sessions that were open at one moment. It is not part of the state.
type roll struct {
	to Ref
	// open are those that have not ended, nor been heard from since awaited.
	open    map[*session]struct{}
	awaited bool
	// awaitedAt is when awaiting began.
	awaitedAt time.Time
	// riding are those whose client said last that it rides.
	riding map[*session]ride
}

// ride is how long a session had been riding at a time.
type ride struct {
	rode time.Duration
	at   time.Time
}

func (c CallRoll) decide(t *Table, _ Now, d *Decided) {
	r := &roll{to: c.To, open: make(map[*session]struct{}, len(t.sessions)), riding: map[*session]ride{}}
	var longest time.Duration
	for _, s := range t.sessions { //tidy:unordered a set and a maximum
		r.open[s] = struct{}{}
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
		d.reply(r.to, 0, RollOver{Missing: len(r.open)})
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
		r.riding[s] = ride{rode, now.Wall}
	}
}

// heard notes that a session was heard from.
func (r *roll) heard(t *Table, s *session, d *Decided) {
	if r == nil || !r.awaited {
		return
	}
	if x, rode := r.riding[s]; rode {
		e := t.rollEntry(s, func(l *lease) bool { return l.extra.ride > 0 })
		// It rode on until it was answered, and no answer left before awaiting began.
		e.Rode = x.rode + max(r.awaitedAt.Sub(x.at), 0)
		d.reply(r.to, 0, e)
	}
	r.remove(s)
}

// expires notes that a session is about to expire.
func (r *roll) expires(t *Table, s *session, d *Decided) {
	if r == nil {
		return
	}
	if _, on := r.open[s]; on {
		e := t.rollEntry(s, func(*lease) bool { return true })
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

// rollEntry describes a session, and those of its leases that are of interest.
func (t *Table) rollEntry(s *session, of func(*lease) bool) RollEntry {
	e := RollEntry{Handle: t.handle(s), Label: s.label, Identity: s.identity}
	for l := s.leases.head; l != nil; l = l.next {
		if !of(l) {
			continue
		}
		e.Leases++
		l.holds(func(h *hold) {
			if len(e.Names) < namesOnRoll {
				e.Names = append(e.Names, h.lock.name)
			}
		})
	}
	return e
}

// finishRoll ends a roll on which nobody is left.
func (t *Table) finishRoll(d *Decided) {
	if r := t.roll; r != nil && r.awaited && len(r.open) == 0 {
		d.reply(r.to, 0, RollOver{})
		t.roll = nil
	}
}
