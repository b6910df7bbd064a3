package locktable

import (
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// A client may ask for another TTL with any renewal. The answer states the TTL that
// this renewal is good for, counted from its sending. Every promise holds, whatever is
// asked for later. The next tenure gives a session that is not silent the TTL in the
// log. So the log must never have a lower TTL than the longest promise that still runs.
//
// A higher TTL is logged when it is asked for. The answer waits for the record, as
// every renewal's answer waits for all records of its session:
//
//  1. The holder, promised 2 s, asks for 10 s. The server logs 10 s.
//  2. If a take-over comes before the record is durable, the next server gives 2 s. The
//     holder has no answer, and counts on no more.
//  3. If it comes later, with or without the answer, the next server gives 10 s.
//
// A lower TTL is promised from the renewal on that asks for it. It is logged when the
// last promise above it has run out:
//
//  1. The holder, promised 10 s at time 0, asks for 2 s at time 1. The answer says 2 s,
//     but the holder may count on 10 s from time 0.
//  2. A take-over at time 3 finds 10 s in the log and gives them again. With 2 s in
//     the log the next server would end the session at time 5.
//  3. At time 10 no promise above 2 s runs, and 2 s are logged.
//
// A take-over forgets a TTL that was asked for and not yet logged. A client on a stream
// asks again in its greeting; a client without one sees the higher TTL in its next
// answer. A TTL that is lowered in steps, from 10 s to 5 s to 2 s, also waits for the
// promises of 5 s: deadline bounds all that was ever promised.
//
// Messages of a stream arrive in order, and those of an older stream are ignored. A
// message that is sent twice is recognized by its number: it must not ask again for a
// TTL that was given up since. Without a stream there is no number, and a late repeat
// asks again. That does no harm: a raise only lasts longer, and a lower TTL waits for
// what was promised.

// wantedTTL tells what is wrong with the TTL that a renewal asks for; 0: with
// none.
func wantedTTL(ttl time.Duration) error {
	if ttl == 0 {
		return nil
	}
	return bounds.ValidTTL(ttl)
}

// promise is what a renewal is good for.
func (s *session) promise() time.Duration {
	if s.lower != 0 {
		return s.lower
	}
	return s.ttl
}

// want notes which TTL a session asks for; 0: the one as before.
func (t *Table) want(now Now, s *session, ttl time.Duration, d *Decided) {
	if ttl == 0 || ttl == s.promise() {
		return
	}
	if ttl < s.promise() {
		s.promised = s.deadline
	}
	switch {
	case ttl > s.ttl:
		t.setTTL(s, ttl, d)
	case ttl == s.ttl:
		s.lower, s.promised = 0, 0
	default:
		s.lower = ttl
	}
	// What comes next may come earlier than under the TTL before.
	if s.slot != 0 {
		t.due.remove(s.slot)
		t.due.add(now.Low, appointment{s: s})
	}
}

// lower logs a lower TTL when nothing that was promised above it is running.
func (t *Table) lower(now Now, s *session, d *Decided) {
	if s.lower != 0 && s.promised <= now.Low {
		t.setTTL(s, s.lower, d)
	}
}

func (t *Table) setTTL(s *session, ttl time.Duration, d *Decided) {
	s.lower, s.promised = 0, 0
	t.emit(d, &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_TTL, Session: s.id.bytes(), TtlNano: int64(ttl)})
}
