package pawl

import (
	"fmt"
	"time"
)

// EventKind says what happened to a client's session, or to an acquire of it.
type EventKind uint8

const (
	// Safe: renewals are acknowledged; so it begins, and so it is again after
	// Jeopardy.
	Safe EventKind = iota + 1
	// Jeopardy: half of the trusted time has gone by without an acknowledged
	// renewal. Every lease is still held.
	Jeopardy
	// Lost: the session ended, and with it every lease that it had. A new one
	// is opened as soon as a server can be reached.
	Lost
	// Riding: the deadline has passed without an acknowledged renewal, and leases ride
	// ([RideThrough]); those that do not are lost. Safe follows when a server answers and
	// still has them, Lost when the last of them has ended.
	Riding
	// ClaimOnly: an acquire of this client waits because the name is closed to acquires
	// that do not claim. Err is a *HeldError that says which name, why and for how long.
	ClaimOnly
	// StoreRolledBack: the cell's log lost grants that it had acknowledged.
	// Tokens go on above all that this client has seen; an operator should look.
	StoreRolledBack
)

func (k EventKind) String() string {
	switch k {
	case Safe:
		return "safe"
	case Jeopardy:
		return "jeopardy"
	case Lost:
		return "lost"
	case Riding:
		return "riding"
	case ClaimOnly:
		return "claim-only"
	case StoreRolledBack:
		return "store rolled back"
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event tells what happened to a client's session, or to an acquire of it.
type Event struct {
	Kind EventKind
	// Remaining is the time until the local deadline, 0 when Lost or Riding.
	Remaining time.Duration
	// Leases is how many leases are concerned; for Riding how many ride.
	Leases int
	// Err is what is known of the reason; nil for Safe.
	Err error
}

// eventsKept bounds the events that wait to be read.
const eventsKept = 64

// post puts an event into the channel; when it is full the oldest is dropped.
func post(to chan Event, e Event) {
	for {
		select {
		case to <- e:
			return
		default:
		}
		select {
		case <-to:
		default:
		}
	}
}
