package wire

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Item is one answer of the cell for a stream.
type Item struct {
	Number uint64
	Answer locktable.Answer
}

// Weight is about what an answer costs while it waits and on the wire, in bytes.
func Weight(a locktable.Answer) int {
	const base = 96
	switch a := a.(type) {
	case locktable.Granted:
		n := base
		for _, g := range a.Grants {
			n += 32 + len(g.Name)
		}
		return n
	case cell.Traced:
		return base + Weight(a.Answer)
	case locktable.Refused:
		n := base + len(a.Message)
		if a.Holder != nil {
			n += 128 + len(a.Holder.Label) + len(a.Holder.Handle)
		}
		return n
	case locktable.Attached:
		return base + 8*len(a.Lost)
	case locktable.Notice:
		return base + len(a.Reason)
	case locktable.Observed:
		return base + len(a.Name) + len(a.Value) + len(a.Label) + len(a.Message)
	}
	return base
}

// Welcome is the server's greeting.
func Welcome(a locktable.Attached, info cell.Info, session []byte) *linkpb.Welcome {
	return &linkpb.Welcome{
		Version:       linkpb.Version,
		Cell:          info.Cell,
		Epoch:         info.Epoch,
		ActiveTtlNano: int64(info.ActiveTTL),
		Session:       session,
		TtlNano:       int64(a.TTL),
		Lost:          a.Lost,
		RolledBack:    a.RolledBack,
	}
}

// Beat returns how long after now the server's next beat is. Clients with this TTL
// renew on the beat so that renewals come together. A renewal that comes alone wakes a
// server that has gone to sleep since the last one; at thousands of sessions that was a
// third of the cost of a renewal. A client on the beat renews less than one beat early.
//
// 0 means that a session with this TTL keeps no beat: the beat would be a large part of
// the time between two of its renewals.
func Beat(now clock.Reading, ttl time.Duration) time.Duration {
	if ttl < cell.PatientTTL {
		return 0
	}
	return linkpb.BeatGap - now.Raw%linkpb.BeatGap
}

// Trace tells when an acquire was where, from when the request had been read, on the
// clock that nobody slews; 0 where the cell noted nothing.
func Trace(t cell.Trace, sent clock.Reading) *linkpb.Trace {
	since := func(r clock.Reading) int64 { return int64(max(r.Raw-t.Received.Raw, 0)) }
	return &linkpb.Trace{
		QueuedNano: since(t.Queued), TakenNano: since(t.Taken), DecidedNano: since(t.Decided),
		ClosedNano: since(t.Closed), AppendingNano: since(t.Appending), LandedNano: since(t.Landed),
		FinalNano: since(t.Final), SentNano: since(sent),
	}
}

// Refused is a refusal in the words of the link.
func Refused(a locktable.Refused) *linkpb.Refused {
	r := &linkpb.Refused{Reason: Reason(a.Reason), Message: a.Message, Name: a.Name, ClaimOnlyNano: int64(a.ClaimOnly)}
	if a.Holder != nil {
		r.Holder = Holder(*a.Holder)
	}
	return r
}

// Holder is a holder in the words of the link.
func Holder(h locktable.Holder) *linkpb.Holder {
	return &linkpb.Holder{
		Token:           uint64(h.Token),
		Holder:          h.Handle,
		Label:           h.Label,
		SinceUnixNano:   h.Since.UnixNano(),
		ExpiresInNano:   int64(h.ExpiresIn),
		Shared:          h.Shared,
		Slot:            h.Slot,
		Breaking:        h.Breaking,
		Identity:        h.Identity,
		Grade:           grades[h.Grade],
		RideThroughNano: int64(h.RideThrough),
	}
}

var grades = map[locktable.Grade]linkpb.Grade{
	locktable.Advisory: linkpb.Grade_GRADE_ADVISORY,
	locktable.Delayed:  linkpb.Grade_GRADE_DELAYED,
	locktable.Claimed:  linkpb.Grade_GRADE_CLAIMED,
}

// Lock is a name of a listing in the words of the link.
func Lock(l locktable.Lock) *linkpb.Lock {
	x := &linkpb.Lock{
		Name: l.Name, Value: l.Value, Slots: l.Slots, InUse: l.InUse,
		ClosedForNano: int64(l.ClosedFor), ClaimOnlyNano: int64(l.ClaimOnlyFor),
	}
	for _, h := range l.Holders {
		x.Holders = append(x.Holders, Holder(h))
	}
	for _, w := range l.Waiters {
		x.Waiters = append(x.Waiters, &linkpb.Waiter{Holder: w.Handle, Label: w.Label, Shared: w.Shared, Identity: w.Identity})
	}
	return x
}

func notice(a locktable.Notice) *linkpb.Notice {
	n := &linkpb.Notice{Token: uint64(a.Token), Kind: linkpb.Notice_KIND_BREAKING, Reason: a.Reason}
	if a.Ended {
		n.Kind = linkpb.Notice_KIND_BROKEN
	}
	return n
}

var reasons = map[locktable.Reason]linkpb.Reason{
	locktable.Invalid:         linkpb.Reason_REASON_INVALID,
	locktable.Unauthenticated: linkpb.Reason_REASON_UNAUTHENTICATED,
	locktable.Denied:          linkpb.Reason_REASON_DENIED,
	locktable.Gone:            linkpb.Reason_REASON_GONE,
	locktable.Held:            linkpb.Reason_REASON_HELD,
	locktable.Conflict:        linkpb.Reason_REASON_CONFLICT,
	locktable.TokenMismatch:   linkpb.Reason_REASON_TOKEN_MISMATCH,
	locktable.Exhausted:       linkpb.Reason_REASON_EXHAUSTED,
	locktable.Unavailable:     linkpb.Reason_REASON_UNAVAILABLE,
	locktable.RolledBack:      linkpb.Reason_REASON_STORE_ROLLED_BACK,
	locktable.Cancelled:       linkpb.Reason_REASON_CANCELLED,
}

// Reason is the lock table's reason in the words of the link.
func Reason(r locktable.Reason) linkpb.Reason { return reasons[r] }

// DrillReport is the report of a drill in the words of the link.
func DrillReport(r cell.DrillReport) *linkpb.DrillResponse {
	x := &linkpb.DrillResponse{
		LastedNano: int64(r.Lasted), Sessions: uint64(r.Sessions), Returned: uint64(r.Returned), Missing: uint64(r.Missing),
		LostCount: uint64(r.LostCount), RidesCount: uint64(r.RideCount),
	}
	for _, e := range r.Lost {
		x.Lost = append(x.Lost, &linkpb.DrillLoss{
			Holder: e.Handle, Label: e.Label, Identity: e.Identity, Names: e.Names, Leases: uint64(e.Leases),
		})
	}
	for _, e := range r.Rides {
		x.Rides = append(x.Rides, &linkpb.DrillRide{
			Holder: e.Handle, Label: e.Label, Identity: e.Identity, Names: e.Names, RodeNano: int64(e.Rode),
		})
	}
	return x
}
