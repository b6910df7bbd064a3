package rest

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// acquireBody has pointers where what is left out and what is empty or zero
// differ.
type acquireBody struct {
	Name      *string   `json:"name,omitempty" doc:"What to lock: 1 to 512 bytes without control characters. Either this or names."`
	Names     []string  `json:"names,omitempty" nullable:"false" doc:"Names to lock together, all or nothing: 1 to 64, duplicates removed. Either this or name."`
	Shared    bool      `json:"shared,omitempty" doc:"Shared with other shared leases. Absent: exclusive. Not together with slots."`
	Slots     *int64    `json:"slots,omitempty" format:"int32" doc:"One of so many slots, 1 to 10000: everybody who uses the name states the same number. Not together with shared."`
	Value     Bytes     `json:"value,omitempty" doc:"What others are shown of the holder, in base64: at most 65536 bytes."`
	LockDelay *Duration `json:"lock_delay,omitempty" doc:"How long the name stays closed to exclusive and slot leases when this lease expires or is broken by force, at most 1h. Absent or 0s: not at all."`
	Claims    bool      `json:"claims,omitempty" doc:"The holder claims a guard of the resource before it acts: its own word. Such an acquire is also granted a name that is closed to those that do not claim."`
	Ride      *Duration `json:"ride_through,omitempty" doc:"How long after its last renewal that was answered the holder may go on without an answer, more than 0 and at most 24h. Needs claims, and one name, exclusive or of slots. Absent: it stops at its deadline."`
	TTL       *Duration `json:"ttl,omitempty" doc:"TTL of a session of the lease's own; 15s when absent. Not together with session."`
	Session   *string   `json:"session,omitempty" doc:"Session that the lease belongs to. Needs a request_id."`
	Wait      *Duration `json:"wait,omitempty" doc:"How long to wait for the turn, at most 24h. Absent or 0s: one try."`
	Label     string    `json:"label,omitempty" doc:"Shown to others; at most 256 bytes."`
	RequestID string    `json:"request_id,omitempty" doc:"Makes the request safe to repeat: a repeat finds the lease of the first. At most 128 bytes. Without one a lease of a session whose answer is lost is held as long as the session."`
	Trace     bool      `json:"trace,omitempty" doc:"Return how long the request spent in each part of the server."`
}

// namesListed bounds the names of an acquire as they are listed, duplicates
// included.
const namesListed = 1024

func (b *acquireBody) field(key string, r *reader) (err error) {
	switch key {
	case "name":
		s, err := r.text()
		return some(&b.Name, s, err)
	case "names":
		b.Names, err = r.texts(namesListed)
	case "shared":
		b.Shared, err = r.truth()
	case "slots":
		n, err := r.whole()
		return some(&b.Slots, n, err)
	case "value":
		err = r.into(&b.Value)
	case "lock_delay":
		err = given(&b.LockDelay, r)
	case "claims":
		b.Claims, err = r.truth()
	case "ride_through":
		err = given(&b.Ride, r)
	case "ttl":
		err = given(&b.TTL, r)
	case "session":
		s, err := r.text()
		return some(&b.Session, s, err)
	case "wait":
		err = given(&b.Wait, r)
	case "label":
		b.Label, err = r.text()
	case "request_id":
		b.RequestID, err = r.text()
	case "trace":
		b.Trace, err = r.truth()
	default:
		err = errUnknownKey
	}
	return err
}

func (*acquireBody) check() error { return nil }

// LeaseBody is a lease as its holder sees it. Lease and Session are
// capabilities. Name, Fence and Slot are those of a lease that was asked for by
// one name; the others have Names, so that nobody takes the fence of one name
// for that of another.
type LeaseBody struct {
	Lease   string     `json:"lease"`
	Name    string     `json:"name,omitempty"`
	Token   Token      `json:"fencing_token"`
	Fence   Token      `json:"fence,omitempty" doc:"What the guard of this name is claimed and checked with."`
	Cell    string     `json:"cell"`
	Session string     `json:"session"`
	TTL     Duration   `json:"ttl" doc:"Counts from the grant."`
	Waited  Duration   `json:"waited" doc:"At most the time between the request and the grant."`
	Slot    *uint32    `json:"slot,omitempty" doc:"From 1; 0: the lease is not one of slots. The guard's line is the name, U+001F and this number then."`
	Names   []NameBody `json:"names,omitempty" nullable:"false" doc:"Each name of a lease that was asked for by names."`
	Trace   []RoomBody `json:"trace,omitempty" nullable:"false" doc:"When it was asked for: the rooms of the server, in the order of the request's way. Absent when too many were asked for at the same time."`
}

// NameBody is one name of a lease.
type NameBody struct {
	Name  string `json:"name"`
	Fence Token  `json:"fence"`
	Slot  uint32 `json:"slot"`
}

// Give fills in what was granted; several: as names, otherwise as the only one.
func (l *LeaseBody) Give(names []NameBody, several bool) {
	if several || len(names) != 1 {
		l.Names = names
		return
	}
	l.Name, l.Fence, l.Slot = names[0].Name, names[0].Fence, &names[0].Slot
}

func (s *handlers) acquire(ctx context.Context, _ *empty, in *acquireBody) (*body[LeaseBody], error) {
	r, err := in.request()
	if err != nil {
		return nil, invalid(err.Error())
	}
	if in.Trace {
		s.traced(&r)
	}
	l, err := s.cell.Acquire(ctx, r)
	if err != nil {
		return nil, s.refusal(err)
	}
	out := LeaseBody{
		Lease: l.ID, Token: Token(l.Granted.Token), Cell: l.Cell, Session: l.Session,
		TTL: Duration(l.Granted.TTL), Waited: Duration(l.Granted.Waited),
	}
	names := make([]NameBody, 0, len(l.Granted.Grants))
	for _, g := range l.Granted.Grants {
		names = append(names, NameBody{g.Name, Token(g.Fence), g.Slot})
	}
	out.Give(names, in.Names != nil)
	if l.Trace != nil {
		out.Trace = roomsOf(l.Trace, s.clock.Now())
	}
	return &body[LeaseBody]{out}, nil
}

// request checks what the cell could not tell apart any more, and what it would
// not be asked for in the same words.
func (b *acquireBody) request() (r cell.AcquireRequest, err error) {
	r = cell.AcquireRequest{Names: b.Names, Value: b.Value, Label: b.Label, RequestID: b.RequestID, Claims: b.Claims}
	switch {
	case b.Name != nil && b.Names != nil:
		return r, errors.New("both name and names are given; expected one of them")
	case b.Name != nil:
		r.Names = []string{*b.Name}
	case b.Names == nil:
		return r, errors.New("neither name nor names is given; expected one of them")
	case len(b.Names) == 0:
		return r, errors.New("names is empty; 1 to 64 names were expected")
	}
	switch {
	case b.Shared && b.Slots != nil:
		return r, errors.New("both shared and slots are given; expected one of them")
	case b.Shared:
		r.Mode = locktable.Shared
	case b.Slots != nil:
		if err := bounds.ValidSlots(*b.Slots); err != nil {
			return r, err
		}
		r.Mode, r.Slots = locktable.Slots, uint32(*b.Slots)
	}
	if b.LockDelay != nil {
		r.LockDelay = time.Duration(*b.LockDelay)
	}
	if b.Ride != nil {
		// A stated zero is not "none".
		if err := bounds.ValidRideThrough(time.Duration(*b.Ride)); err != nil {
			return r, err
		}
		r.RideThrough = time.Duration(*b.Ride)
	}
	switch {
	case b.TTL != nil && b.Session != nil:
		return r, errors.New("both ttl and session are given; expected one: a lease of a session has the session's ttl")
	case b.Session != nil && *b.Session == "":
		return r, errors.New("the session is empty; expected the id of a session, or none for a session of the lease's own")
	case b.Session != nil:
		r.Session = *b.Session
	}
	if r.TTL, err = ttlOf(b.TTL); err != nil {
		return r, err
	}
	if b.Wait != nil {
		r.Wait = time.Duration(*b.Wait)
	}
	return r, nil
}
