package locktable

import (
	"time"

	"github.com/pawlproject/pawl/guard"
)

// ID is the hash of a session's or a lease's id. The id itself is a capability
// and never reaches the table.
type ID [16]byte

// Ref stands for the receiver of an answer. The table hands it back and
// never looks inside.
type Ref any

// Now is what a decision may know of time.
type Now struct {
	// Low and High bound the usable time of this tenure: the time that surely counts,
	// and the most that may count up to this moment. Promises are made by High and end
	// by Low.
	Low, High time.Duration
	// Wall labels events and draws the line that the counter may not pass.
	Wall time.Time
}

// Command asks for a decision.
type Command interface{ decide(*Table, Now, *Decided) }

// Attach binds a stream to a session, a new one when Session is zero.
type Attach struct {
	Ref        Ref
	Session    ID
	Generation uint64
	// TTL that is asked for; 0 leaves a session that lives with its own.
	TTL time.Duration
	// New and what follows open a session when Session is zero.
	New             ID
	Label, Identity string
	// Held and Wanted say what the client still wants; the rest of what it had asked
	// for before Next is released.
	Held   []uint64
	Wanted []uint64
	// Next is the number that the client's next new request will have; 0: not said,
	// and nothing is released.
	Next uint64
	// Cell and Highest are what the client has seen; see Attached.RolledBack.
	Cell    string
	Highest guard.Token
	// Riding is for how long leases of the session have been riding; 0: none rides.
	Riding time.Duration
}

// Detach says that a stream has ended.
type Detach struct {
	// Ref is the stream's: one that was refused must not detach another.
	Ref        Ref
	Session    ID
	Generation uint64
}

// Heard is a message of a session's stream; it renews.
type Heard struct {
	Ref        Ref
	Session    ID
	Generation uint64
	// Renewal is answered with Renewed when it is not 0.
	Renewal uint64
	// TTL is asked for from this renewal on; 0: what was asked for last.
	TTL time.Duration
	// Finished: every request numbered below will not be asked again.
	Finished uint64
}

// Close ends a session and all its leases.
type Close struct {
	Ref      Ref
	Session  ID
	Identity string
	// GivenUp: its client has lost the session. A roll counts it as lost.
	GivenUp bool
}

// OpenSession opens a session without a stream.
type OpenSession struct {
	Ref             Ref
	New             ID
	TTL             time.Duration
	Label, Identity string
}

// Renew renews a session without a stream, named by itself or by a lease.
type Renew struct {
	Ref            Ref
	Session, Lease ID
	Identity       string
	// TTL is asked for from now on; 0: what was asked for last.
	TTL time.Duration
}

// Mode is how a name is held.
type Mode uint8

// The modes. An exclusive lease excludes every other; shared ones exclude
// exclusive ones; slots are a semaphore, of as many as Acquire.Slots says.
const (
	Exclusive Mode = iota
	Shared
	Slots
)

// Acquire asks for a lease.
type Acquire struct {
	Ref Ref
	// Names to hold, all or nothing; duplicates are removed.
	Names []string
	Mode  Mode
	// Slots of the name, for mode Slots; 0 otherwise.
	Slots uint32
	Label string
	// Value of the holder, which others see.
	Value []byte
	// LockDelay is how long the names stay closed to exclusive and slot grants
	// when the lease ends without its holder's doing.
	LockDelay time.Duration
	// Claims: the holder claims its guards before it acts.
	Claims bool
	// RideThrough is how long after its last acknowledged renewal the holder may go on
	// without an answer; 0: to its deadline. It needs Claims.
	RideThrough time.Duration
	// Try: one try, no waiting.
	Try bool
	// Session that the lease belongs to. Zero: one of its own, Own, with TTL,
	// opened by the grant.
	Session  ID
	Own      ID
	TTL      time.Duration
	Identity string
	// Generation and Number are set for a request on a stream.
	Generation, Number uint64
	// Ticket is the place in the queue from before a take-over, or that of the
	// request that this one replaces; zero: none.
	Ticket Place
	// Replaces is the number under which the request was asked before, 0: none.
	Replaces uint64
	// Lease is set for a request without a stream, RequestKey and Salt when it
	// can be repeated.
	Lease      ID
	RequestKey ID
	Salt       []byte
}

// Place orders waiters: by tenure, then by arrival.
type Place struct{ Epoch, Sequence uint64 }

// Cancel gives up a request: a waiter leaves, a lease granted to it meanwhile
// is released, and a request that has not arrived yet is refused when it does.
type Cancel struct {
	Session            ID
	Generation, Number uint64
	// Waiter cancels a request without a stream by its Ref instead.
	Waiter Ref
}

// DetachWaiter says that the connection of an acquire without a stream has ended while
// the acquire waits. With a request id its place is kept for PlaceKept, like that of a
// stream that ended: it is passed over and never granted, until the same request takes
// it up again. Without a request id nothing could take it up, so the waiter is removed
// at once.
type DetachWaiter struct{ Waiter Ref }

// Release ends a lease, named by its token within a session's stream or by its
// id.
type Release struct {
	Ref                Ref
	Session            ID
	Generation, Number uint64
	Token              guard.Token
	Lease              ID
	// Identity of the caller, where the lease is named by its id.
	Identity string
	// Lost: the client has lost the lease, which ends as an expired one does.
	Lost bool
}

// Observe has a stream told who holds a name, now and at every change, until
// Unobserve, or until the stream ends.
type Observe struct {
	Ref        Ref
	Session    ID
	Generation uint64
	Name       string
}

// Unobserve ends Observe.
type Unobserve struct {
	Session    ID
	Generation uint64
	Name       string
}

// Check asks whether a session still holds a lease.
type Check struct {
	Ref                Ref
	Session            ID
	Generation, Number uint64
	Token              guard.Token
}

// Break asks the holder of a name to let go, or ends its lease at once.
type Break struct {
	Ref      Ref
	Name     string
	Token    guard.Token
	Reason   string
	Identity string
	Now      bool
	// May says on which names the caller may break a lease: one lease may hold
	// several. nil: on all.
	May func(name string) bool
}

// List reads names that are held or waited for: one, or a page of those with a
// prefix, in byte order, after a name.
type List struct {
	Ref    Ref
	Name   string
	Prefix string
	After  string
	// Limit bounds the names of the page; 0, and more than PageMax, is PageMax.
	Limit int
	// WithoutQueue leaves the waiters out.
	WithoutQueue bool
	// Within are prefixes of the names that the caller may see, sorted and none a
	// prefix of another; nil: all names.
	Within []string
}

// Ping asks whether the tenure is in force, and for nothing of the table.
type Ping struct{ Ref Ref }

// Reply carries an answer to its receiver.
type Reply struct {
	To     Ref
	Number uint64
	Answer Answer
}

// Answer is what a command led to.
type Answer interface{ answer() }

// Attached greets a stream.
type Attached struct {
	// TTL is what the greeting is good for as a renewal.
	TTL        time.Duration
	Lost       []uint64
	RolledBack bool
	Session    ID
	// Rode is how long leases of the session have been riding, less what earlier answers
	// told of the same ride. NewRide: none of them told of it.
	Rode    time.Duration
	NewRide bool
}

// Opened: the session lives.
type Opened struct{ TTL time.Duration }

// Renewed: up to this number; 0 for a session without a stream.
type Renewed struct {
	Number  uint64
	Session ID
	// TTL is what the renewal is good for, from its sending: all that its sender
	// may count on, whatever the log has.
	TTL time.Duration
	// Breaking tells the caller that renewed by a lease that its holder is asked to let
	// go, and Reason why. Streams are told by a Notice.
	Breaking bool
	Reason   string
	// ByLease: the session was named by a lease of it, which is held.
	ByLease bool
}

// Granted is a lease.
type Granted struct {
	Token  guard.Token
	Grants []Grant
	TTL    time.Duration
	// Waited is at most the time between the request and the grant.
	Waited time.Duration
	// Salt is what the lease's id was derived with, for a repeated request.
	Salt []byte
	// Session of the lease.
	Session ID
	// RideThrough of the lease; 0: it does not ride.
	RideThrough time.Duration
}

// Grant is one name of a lease.
type Grant struct {
	Name  string
	Fence guard.Token
	Slot  uint32
}

// Waiting: the request stands in the queue at this place.
type Waiting struct {
	Place Place
	// ClaimOnly is for how long a name is closed to acquires that do not claim, when the
	// request does not. It is said again when that begins while the request waits.
	ClaimOnly time.Duration
}

// Done: as asked. Of is what that was; Session is set for a check.
type Done struct {
	Of      Asked
	Session ID
}

// Alive answers a Ping.
type Alive struct{}

// Asked is a request whose answer says nothing but that it is done.
type Asked uint8

// The requests that are answered with Done.
const (
	AskedRelease Asked = iota
	AskedCheck
	AskedClose
)

// Broken answers a Break: ended, or the holder was asked. Handle is the
// holder's.
type Broken struct {
	Ended  bool
	Handle string
	// RidesOn is how long the holder of a lease that was ended by force may go on where
	// it cannot be reached, unless a guard is claimed with a higher token.
	RidesOn time.Duration
}

// Refused says why not.
type Refused struct {
	Reason  Reason
	Message string
	// Name that is held, and its first holder, when the reason is Held. There is
	// none where a lock-delay or who waits keeps the name. ClaimOnly is for how long the
	// name is closed to this acquire, which does not claim.
	Name      string
	Holder    *Holder
	ClaimOnly time.Duration
}

// Notice tells a stream what happened to a lease.
type Notice struct {
	Token  guard.Token
	Ended  bool
	Reason string
}

// Observed tells who holds a name: the first holder's token, 0 when it is free.
type Observed struct {
	Name  string
	Token guard.Token
	Value []byte
	Label string
	// Reason and Message say why the name is not observed: for want of room, or of a
	// right, which fronts say.
	Reason  Reason
	Message string
}

// Ended tells the receiver of ends that a session has expired, with the names of its first
// leases, or that a lease has ended of which no stream is told.
type Ended struct {
	// What happened: "expired", "released" or "broken".
	What string
	// Identity, Label and Handle are the holder's.
	Identity, Label, Handle string
	// Token of the lease; 0 for a session.
	Token guard.Token
	Names []string
	// Leases of the session.
	Leases int
	// Reason of a break, and By whom it was asked for.
	Reason, By string
}

// Closed tells a stream that its session has ended or belongs to another one.
type Closed struct {
	Reason  Reason
	Message string
}

// Page is an answer to List; Next is where to go on, empty at the end.
type Page struct {
	Locks []Lock
	Next  string
}

// Lock is a name as others see it.
type Lock struct {
	Name string
	// Slots of the name; 0: it is used as a lock.
	Slots uint32
	// InUse is how many slots have a holder; all holders may not be listed.
	InUse uint32
	// Value of the first holder.
	Value []byte
	// ClosedFor is what is left of a lock-delay.
	ClosedFor time.Duration
	// ClaimOnlyFor is for how long it is closed to acquires that do not claim.
	ClaimOnlyFor time.Duration
	Holders      []Holder
	Waiters      []Waiter
}

// Holder of a name as others see it. Handle stands for the session and cannot
// be used to act on it.
type Holder struct {
	Token     guard.Token
	Handle    string
	Label     string
	Since     time.Time
	ExpiresIn time.Duration
	Slot      uint32
	Shared    bool
	Breaking  bool
	Grade     Grade
	// RideThrough is how long the holder may go on without an answer; 0: to its deadline.
	RideThrough time.Duration
	// Identity is who it is, where callers prove that.
	Identity string
}

// Waiter in a queue as others see it.
type Waiter struct {
	Handle, Label string
	Shared        bool
	Identity      string
}

// Reason is why something was refused; the words of the HTTP interface.
type Reason string

// The reasons.
const (
	Invalid         Reason = "invalid"
	Unauthenticated Reason = "unauthenticated"
	Denied          Reason = "denied"
	Gone            Reason = "gone"
	Held            Reason = "held"
	Conflict        Reason = "conflict"
	TokenMismatch   Reason = "token_mismatch"
	Exhausted       Reason = "exhausted"
	Unavailable     Reason = "unavailable"
	RolledBack      Reason = "store_rolled_back"
	Cancelled       Reason = "cancelled"
)

func (Attached) answer() {}
func (Opened) answer()   {}
func (Renewed) answer()  {}
func (Granted) answer()  {}
func (Waiting) answer()  {}
func (Done) answer()     {}
func (Alive) answer()    {}
func (Broken) answer()   {}
func (Refused) answer()  {}
func (Notice) answer()   {}
func (Closed) answer()   {}
func (Page) answer()     {}
func (Observed) answer() {}
func (Ended) answer()    {}
