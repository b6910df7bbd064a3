package step

import (
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// A full store refuses every write and still reads, until its operator makes room.
// Events that must be written wait, and so do the answers behind them. If all answers
// waited, every lease would be lost for the want of one record. These answers may pass
// waiting records, since they show nothing of them:
//
//	a renewal      if none of them is about its session itself: that it was
//	               opened or ended, is silent, was heard, has another TTL; or
//	               about a rider of it that was broken by force
//	an attachment  likewise, if it declares nothing lost
//	a check        if none of them is about the session or a lease of it
//	a refusal      for want of room: it shows nothing at all
//	an Alive       likewise
//	a listing      if none of them changes a name that it shows, or would show
//	observers      are told of a name if none of them changes it
//
// All of them wait for a Confirm, as always; it is a read.
//
// Why a renewal may pass (I3, I5). It says that the session lives, and that the next
// tenure too gives it this TTL from now on. What the next tenure gives is in the
// durable log, in records about the session itself and no others. When no such record
// waits, the log says the same of the session as the table, whatever becomes of the
// waiting records:
//
//  1. S and T are clients. T's release is in batch 8, which the store refuses.
//  2. S's renewal is received. A Confirm that begins after that succeeds, and the renewal
//     is answered with batch 8 undecided.
//  3. The server dies. The next one claims after 2, has batch 7 or 8 as the head of the
//     log, and finds S there with its whole TTL.
//
// Why a renewal may not pass a record of its session:
//
//  1. "S is silent, 2 s left" is durable. S is heard again: batch 8 has "S was
//     heard", and the store refuses it.
//  2. S's renewal is answered, with a TTL of 10 s.
//  3. The server dies. The next one finds S silent, and ends it 2 s after.
//
// A record of a lease does not delay its holder's renewals. A grant that waits was not
// answered. A release that waits leaves the lease in the log, with its session. The
// holder learns of a waiting break by force when its record is durable, as always; see
// below for riders.
//
// We considered promising such a session less, and left it out. The log gives it r, and
// its renewals could be answered with r for a TTL, which the next tenure keeps. But the
// log may become durable at several points, so the least of all would have to be kept
// beside the decided state. r is two thirds of the TTL at first, and less each time
// that the silence was logged. And the client would renew by a TTL that no record has.
// So a session that was silent for a third of its TTL when the store turned full ends
// by its time, as with a server that does not answer.
//
// Nor may it pass the record that a rider of its session was broken by force. The name is
// claim-only from the break on, and a rider may ride from its last answered renewal on:
//
//  1. S's rider with a MAX of 1 min is broken. The store refuses the record, and S is not
//     told. Its renewals are answered for an hour, and the name's minute passes.
//  2. There is room: the record lands. S is cut off before it hears of it, and rides for a
//     minute more.
//  3. One that does not claim is granted the name at once.
//
// A listing shows the decided table. When no waiting record changes a name of it, the
// durable log says the same of those names, since a name depends on its own leases
// alone. A name that was free and will be held, or the other way round, is among the
// changed names, whether or not it is in the table. Waiters, and how long a holder has
// left, are not in the log; they are this server's own. A listing that may not pass is
// refused at once: by name, or by a longer prefix, other names can be listed. Only
// listings that were decided before the store was known to be full wait.
//
// The order of answers to one stream is kept: requests are answered by number, renewals
// cover earlier ones, a stream is greeted before its requests are handled, and from one
// waiting answer about a name on, all later ones wait.
//
// Meanwhile acquires and new sessions are refused, so that no new client waits for the
// operator without knowing. What waits belongs to earlier clients: releases, at most
// one of each lease, and answers that show the table, until their callers give up.

// The words in which a core refuses for want of room. The table has others: what it
// refuses may show what is stuck.
const (
	nearlyFull = "the store is nearly full; renewals, releases and reads go on"
	fullNow    = "the store is full and takes no writes until its operator makes room; renewals go on, releases wait"
	unlistable = "the store is full, and what is asked for shows what could not be written; other names can be listed"
)

// unwritten is what a core knows of records that a full store refuses.
type unwritten struct {
	// about has the sessions that they name; true: not only for a lease, or for a rider
	// that was broken by force.
	about map[locktable.ID]bool
	// passed: groups before this one were looked through.
	passed int
	// since is the last turn before: what is listed later shows nothing that is stuck.
	since uint64
	// changed are the names that they change.
	changed locktable.Changed
}

// changed are the names that records change; unnamed: and others.
type changed struct {
	names   []string
	unnamed bool
}

// noteChanges takes note of the names that were changed since it did last.
func (c *Core) noteChanges() {
	d := &c.decided
	c.changed.names = append(c.changed.names, d.Changed...)
	c.changed.unnamed = c.changed.unnamed || d.Unnamed
	if c.unwritten != nil {
		c.unwritten.changed.Add(d.Changed, d.Unnamed)
	}
	clear(d.Changed)
	d.Changed, d.Unnamed = d.Changed[:0], false
}

// Full notes that the store refuses a batch for want of room. It ends with the
// next batch that lands.
func (c *Core) Full() {
	if c.unwritten != nil || c.durable == c.last {
		return
	}
	c.unwritten = &unwritten{about: map[locktable.ID]bool{}, since: c.turn}
	for n := c.durable + 1; n <= c.last; n++ {
		b, _, err := store.OpenBatch(c.inFlight[n].raw)
		if err != nil {
			panic(fmt.Errorf("cell: read batch %d, which is on its way: %w", n, err))
		}
		c.unwritten.note(b.Events)
		c.unwritten.changed.Add(c.inFlight[n].changed.names, c.inFlight[n].changed.unnamed)
	}
	c.unwritten.note(c.open)
	c.unwritten.changed.Add(c.changed.names, c.changed.unnamed)
	c.releaseFinal()
}

// note takes in records that are not durable.
func (s *unwritten) note(events []*recordpb.Event) {
	for _, e := range events {
		if len(e.Session) == 0 {
			continue
		}
		id := locktable.ID(e.Session)
		switch e.Kind {
		case recordpb.Kind_KIND_GRANTED, recordpb.Kind_KIND_GRANTED_RIDER, recordpb.Kind_KIND_RELEASED,
			recordpb.Kind_KIND_BREAKING, recordpb.Kind_KIND_BROKEN:
			// What the end of a rider closes runs on from when it was decided. A renewal
			// that was answered after that would have the holder, who does not hear of it,
			// ride for longer.
			s.about[id] = s.about[id] || e.RideThroughNano > 0 && e.Kind == recordpb.Kind_KIND_BROKEN
		default:
			s.about[id] = true
		}
	}
}

// passUnwritten sends answers that need not wait for the records that are stuck. It
// checks each group once: what is held back in it stays so until a batch lands. Empty
// groups are dropped, since a store may be full for days and nearly every turn adds a
// group.
func (c *Core) passUnwritten() {
	s, at := c.unwritten, c.unwritten.passed
	for ; at < len(c.groups) && c.groups[at].turn <= c.confirmed; at++ {
		g := c.groups[at]
		early := Group{turn: g.turn, Early: true}
		var rest []locktable.Reply
		for _, r := range g.Replies {
			if s.mayPass(g.turn, r.Answer) {
				early.Replies = append(early.Replies, r)
			} else {
				rest = append(rest, r)
			}
		}
		if len(early.Replies) > 0 {
			c.waiting -= len(early.Replies)
			c.out.Groups = append(c.out.Groups, early)
		}
		g.Replies = rest
		c.relist(&g)
		if len(rest) > 0 || g.events > 0 {
			c.groups[s.passed] = g
			s.passed++
		}
	}
	c.groups = slices.Delete(c.groups, s.passed, at)
}

// mayPass reports whether an answer of a turn shows nothing of the records that are
// stuck.
func (s *unwritten) mayPass(turn uint64, a locktable.Answer) bool {
	switch a := a.(type) {
	case locktable.Renewed:
		itself, named := s.about[a.Session]
		return !itself && !(a.ByLease && named) // so Breaking is durable, if it is there
	case locktable.Attached:
		return !s.about[a.Session] && len(a.Lost) == 0 && !a.RolledBack
	case locktable.Done:
		_, named := s.about[a.Session]
		return a.Of == locktable.AskedCheck && !named
	case locktable.Alive:
		return true
	case locktable.Closed:
		return a.Message == fullNow
	case locktable.Refused:
		return a.Message == fullNow || a.Message == nearlyFull || a.Message == unlistable || a.Message == tooMuchListed
	case locktable.Observed:
		return !s.changed.Has(a.Name)
	case locktable.Page:
		return turn > s.since
	}
	return false
}

// refuseOnFull refuses what would open a session, or list what is stuck.
func (c *Core) refuseOnFull(x locktable.Command) bool {
	switch x := x.(type) {
	case locktable.Attach:
		if x.Session == (locktable.ID{}) {
			c.reply(x.Ref, 0, locktable.Closed{Reason: locktable.Exhausted, Message: fullNow})
			return true
		}
	case locktable.OpenSession:
		c.reply(x.Ref, 0, locktable.Refused{Reason: locktable.Exhausted, Message: fullNow})
		return true
	case locktable.List:
		c.noteChanges()
		if c.unwritten.changed.Touches(x) {
			c.reply(x.Ref, 0, locktable.Refused{Reason: locktable.Exhausted, Message: unlistable})
			return true
		}
	}
	return false
}

// acquire decides an acquire, or refuses it when there is no room for it. One that
// was taken before is no new one.
func (c *Core) acquire(now locktable.Now, x locktable.Command) {
	a, ok := x.(locktable.Acquire)
	switch {
	case !ok || c.table.Asked(a):
	case c.unwritten != nil:
		c.reply(a.Ref, a.Number, locktable.Refused{Reason: locktable.Exhausted, Message: fullNow})
		return
	case c.tight:
		c.reply(a.Ref, a.Number, locktable.Refused{Reason: locktable.Exhausted, Message: nearlyFull})
		return
	}
	c.table.Decide(now, x, &c.decided)
}

func (c *Core) reply(to locktable.Ref, number uint64, a locktable.Answer) {
	c.decided.Replies = append(c.decided.Replies, locktable.Reply{To: to, Number: number, Answer: a})
}
