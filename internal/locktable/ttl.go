package locktable

import (
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// A client may ask for another TTL with any renewal. What its answer says is what
// that renewal is good for, counted from its sending; every promise ever given
// holds, whatever is asked for later. A tenure that comes gives a session that
// is not silent what the log has for its TTL, and so the log must at no moment
// have less than the longest promise that is running.
//
// A higher TTL is logged when it is asked for. The answer waits for the record,
// as every renewal's does for all records of its session:
//
//  1. The holder, promised 2 s, asks for 10 s. The server logs 10 s.
//  2. A take-over before the record is durable: the next server gives 2 s, and
//     the holder, unanswered, counts on no more.
//  3. One after it, with or without the answer: 10 s are given.
//
// A lower TTL is promised from the renewal on that asks for it, and is logged
// when the last promise above it has run out:
//
//  1. The holder, promised 10 s at time 0, asks for 2 s at time 1: it is answered
//     2 s, and may count on 10 s from time 0 all the same.
//  2. A take-over at time 3: the log still has 10 s, and they are given again.
//     With 2 s in the log the next server would end the session at time 5.
//  3. At time 10 nothing above 2 s is running, and 2 s are logged.
//
// What is asked for and not yet logged is forgotten by a take-over. A client on a
// stream asks again in its greeting; one without is told the higher TTL with its
// next answer. Two that lower in steps, from 10 s to 5 s to 2 s, wait for the
// promises of 5 s as well: deadline bounds all that was ever promised.
//
// Messages of a stream arrive in order, those of an older one are not heard. One
// that is sent twice is told by its number: it must not ask again for what was
// given up since. Without a stream there is no number, and a late repeat asks
// anew. It harms nobody: a raise is only longer, and a lower TTL waits for what
// was promised.

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
