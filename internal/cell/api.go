package cell

import (
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// Receiver takes answers as they become final. Receive must not block: the cell's only
// goroutine calls it.
type Receiver = step.Receiver

// Info describes the cell as a client may know it.
type Info struct {
	// Cell is the cell's id, <name>-<16 hex digits>; empty before the first
	// tenure.
	Cell      string
	Epoch     uint64
	ActiveTTL time.Duration
	// Active: this server is the active one and serves.
	Active bool
	// ActiveLink and ActiveHTTP are where the active server is reached, as far
	// as is known.
	ActiveLink, ActiveHTTP string
}

// What a server does for its cell.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
	RoleWaiting = "waiting"
)

// Role is RoleActive, RoleStandby while another server is active, or RoleWaiting while
// this server knows of no active one: it may be about to take over, or its store has
// not answered yet.
func (i Info) Role() string {
	switch {
	case i.Active:
		return RoleActive
	case i.ActiveLink != "" || i.ActiveHTTP != "":
		return RoleStandby
	}
	return RoleWaiting
}

// Lease is what a request without a stream was granted.
type Lease struct {
	// ID and Session are capabilities.
	ID, Session string
	Granted     locktable.Granted
	Cell        string
	// Trace tells when the request was where; nil unless that was asked for, or
	// when too many were traced at the same time.
	Trace *Trace
}

// AcquireRequest asks for a lease without a stream.
type AcquireRequest struct {
	// Names to hold, all or nothing.
	Names []string
	Mode  locktable.Mode
	// Slots of the name, for locktable.Slots.
	Slots     uint32
	Value     []byte
	LockDelay time.Duration
	// Claims: the holder claims its guards before it acts. RideThrough is how long it may
	// go on without an answer; 0: to its deadline.
	Claims      bool
	RideThrough time.Duration
	// Session that the lease belongs to, or empty: one of its own with
	// TTL (0: locktable.TTLDefault).
	Session string
	TTL     time.Duration
	// Wait bounds the wait for the turn; 0: one try.
	Wait  time.Duration
	Label string
	// RequestID makes the request safe to repeat. A lease of a Session whose answer is
	// lost is not found again without one.
	RequestID string
	// QueuedMax bounds the acquires of the caller's identity that wait to be decided; 0:
	// the default.
	QueuedMax int
	// Traced asks for a trace, which counts from Received.
	Traced   bool
	Received clock.Reading
}

// RefusedError is an answer that was refused, as an error.
type RefusedError struct {
	locktable.Refused
	// ActiveLink is where to go when the reason is Unavailable and it is known.
	ActiveLink string
	RetryAfter time.Duration
	// OwnSession: the reason is Held, and Holder is a lease of the session that
	// asked.
	OwnSession bool
}

func (e *RefusedError) Error() string { return string(e.Reason) + ": " + e.Message }

// Renewal answers the renewal of a lease.
type Renewal struct {
	// Session is the id of the lease's session when the lease has it to itself,
	// and its public handle otherwise.
	Session string
	// TTL is what the renewal is good for, counted from when it was sent.
	TTL time.Duration
	// Breaking: the holder is asked to let go, for this Reason.
	Breaking bool
	Reason   string
}

// Hello is what a stream begins with.
type Hello struct {
	// Session is the id to go on with; empty: open one with TTL and Label.
	Session    []byte
	Generation uint64
	// TTL that is asked for; 0: locktable.TTLDefault, or what the session has.
	TTL             time.Duration
	Label, Identity string
	// QueuedMax is as in AcquireRequest.
	QueuedMax    int
	Held, Wanted []uint64
	// Next is the number that the next new request will have; 0: not said.
	Next uint64
	// Cell and Highest are what the client has seen.
	Cell    string
	Highest guard.Token
	// Riding is for how long leases of the session have been riding; 0: none rides.
	Riding time.Duration
}

// Message is what a stream's client said at once. The stream fills in what
// names itself: the commands need no Ref, Session, Generation or Identity.
type Message struct {
	// Renewal is answered with Renewed when it is not 0.
	Renewal, Finished uint64
	// TTL is asked for from this renewal on; 0: what was asked for last.
	TTL      time.Duration
	Acquires []locktable.Acquire
	Releases []locktable.Release
	Cancels  []locktable.Cancel
	Checks   []locktable.Check
	// Traced are the numbers of the acquires that a trace is asked of; Received
	// is when the message had been read.
	Traced   []uint64
	Received clock.Reading
	// Observe and Unobserve name what the client wants to be told of.
	Observe, Unobserve []string
	// Close ends the session.
	Close bool
}

// renews: it renews the session and wants nothing else.
func (m *Message) renews() bool {
	return len(m.Acquires)+len(m.Releases)+len(m.Cancels)+len(m.Checks)+len(m.Observe)+len(m.Unobserve) == 0 && !m.Close
}

// Status is the state of the cell as operators see it. All of it is durable.
type Status struct {
	Info
	// Followed is the last batch that this standby has read of the active server's log,
	// Behind how long ago the read began that came to its end last; 0: it follows none,
	// or has not come to the end yet.
	Followed uint64
	Behind   time.Duration
	// Token is the counter, Ahead how far it stands ahead of the wall clock
	// (negative: behind).
	Token                     guard.Token
	Ahead                     time.Duration
	Sessions, Leases, Waiters int
	// ByGrade counts the leases by grade, Riders those that may ride, and ClaimOnly the
	// names that are closed to acquires that do not claim.
	ByGrade           locktable.ByGrade
	Riders, ClaimOnly int
	Batch             uint64
	Usage             store.Usage
	// Tight: acquires are refused for want of room.
	Tight bool
	// RolledBack: a token was told that a lost log had granted, or this server found
	// the store without the cell that it had served.
	RolledBack bool
	// Drill is how long the outage of a drill goes on; 0: none is held. The rest is as it
	// was when that began: nothing newer is durable.
	Drill time.Duration
	// Waits is what the store of a server that does not serve waits for, for the end of a
	// sentence that begins with "it waits for"; empty: it does not wait, or nobody knows
	// for what.
	Waits string
	// Partial: all but Info, Drill and Waits was left out, since the caller may not see it.
	// The cell itself leaves nothing out.
	Partial bool
}
