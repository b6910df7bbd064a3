package bounds

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of what a client may ask. docs/bounds.md lists them for users.
const (
	// TTLMin and TTLMax bound a session's time to live.
	TTLMin     = time.Second
	TTLMax     = 24 * time.Hour
	TTLDefault = 15 * time.Second
	// WaitMax bounds the wait for a turn.
	WaitMax = 24 * time.Hour
	// NameMax bounds a name, LabelMax a label, ReasonMax a reason and
	// RequestIDMax a request id, all in bytes.
	NameMax      = 512
	LabelMax     = 256
	ReasonMax    = 1024
	RequestIDMax = 128
	// NamesMax bounds the names of one lease, duplicates removed, SlotsMax the
	// slots of a name, ValueMax a holder's value in bytes, LockDelayMax a
	// lock-delay, RideThroughMax how long a lease may go on without an answer.
	NamesMax       = 64
	SlotsMax       = 10_000
	ValueMax       = 64 << 10
	LockDelayMax   = time.Hour
	RideThroughMax = 24 * time.Hour
	// PlaceKept is how long the place of a request without a stream is kept when its
	// connection has ended, if it has a request id.
	PlaceKept = 10 * time.Second
	// PageMax bounds the names of a page.
	PageMax = 1000
	// NumbersMax bounds how far a request's number may be ahead of the lowest
	// unfinished one of its session.
	NumbersMax = 1 << 16
	// MessageMax bounds the bytes of a message from a client: what it splits into
	// several stays below. A stream may keep one of its own unfinished for as long as it
	// is there: gRPC says nothing of a message that has begun.
	MessageMax = 256 << 10
	// RequestsMax bounds the requests of one message, and the names in it that are to be
	// observed or no longer to be.
	RequestsMax = 4096
	// HeldMax bounds the leases, and the requests, that a greeting names, NamedMax those
	// of both that one of its messages names.
	HeldMax  = 1 << 17
	NamedMax = 1 << 13
	// FeaturesMax bounds the features that a greeting names.
	FeaturesMax = 64
	// DrillMax bounds the outage of a drill.
	DrillMax = time.Hour
	// IdentityShare is the part of the cell's limits that one identity with a name
	// may take up: one in so many.
	IdentityShare = 2
)

// Limits bound what a cell holds, so that one caller cannot exhaust it.
type Limits struct {
	LeasesPerSession int
	WaitersPerName   int
	Sessions         int
	Leases           int
	Waiters          int
	// ValueBytes bounds the values of all holders and waiters together.
	ValueBytes int
	// TextBytes bounds the names and labels of all holders and waiters together.
	TextBytes int
	// Closed bounds the names that a lock-delay or the end of a rider keeps closed, or
	// that one would if their holders went now. One that both close counts twice.
	Closed int
	// Observed bounds the names that one session observes, Observers those that all
	// of them do, a name counted for each.
	Observed  int
	Observers int
	// Finished bounds the requests of all sessions that are finished before an earlier
	// one of their session, and have to be remembered.
	Finished int
}

// DefaultLimits are the limits of a cell that was told nothing else.
var DefaultLimits = Limits{
	LeasesPerSession: 100_000,
	WaitersPerName:   10_000,
	Sessions:         1_000_000,
	Leases:           2_000_000,
	Waiters:          1_000_000,
	ValueBytes:       256 << 20,
	TextBytes:        256 << 20,
	Closed:           1_000_000,
	Observed:         1_000,
	Observers:        250_000,
	Finished:         16_000_000,
}

// ValidNames tells what is wrong with the names of one lease: 1 to NamesMax, each of
// them right.
func ValidNames(names []string) error {
	if len(names) < 1 || len(names) > NamesMax {
		return errNames(len(names))
	}
	for _, name := range names {
		if err := ValidName(name); err != nil {
			return err
		}
	}
	return nil
}

// TooManyNames tells why an acquire of so many names is refused, however many of them
// are equal; nil: it may pass. It is asked before an acquire waits to be decided.
func TooManyNames(names []string) error {
	if len(names) > 2*NamesMax {
		return errNames(len(names))
	}
	return nil
}

func errNames(n int) error {
	return fmt.Errorf("%d names were given; 1 to %d were expected", n, NamesMax)
}

// ValidName tells what is wrong with a name: 1 to NameMax bytes of valid UTF-8
// without control characters are right. Names are compared byte for byte.
func ValidName(name string) error {
	if name == "" {
		return errors.New("the name is empty; 1 to 512 bytes were expected")
	}
	if err := validText("name", name, NameMax); err != nil {
		return err
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("the name has the control character %U at byte %d; UTF-8 without control characters was expected", r, i)
		}
	}
	return nil
}

// ValidLabel tells what is wrong with a label.
func ValidLabel(label string) error { return validText("label", label, LabelMax) }

// ValidReason tells what is wrong with the reason of a break.
func ValidReason(reason string) error { return validText("reason", reason, ReasonMax) }

// ValidRequestID tells what is wrong with a request id.
func ValidRequestID(id string) error { return validText("request id", id, RequestIDMax) }

// ValidTTL tells what is wrong with a session's time to live.
func ValidTTL(ttl time.Duration) error {
	if ttl < TTLMin || ttl > TTLMax {
		return fmt.Errorf("the ttl is %v; 1s to 24h was expected", ttl)
	}
	return nil
}

// ValidWait tells what is wrong with a wait.
func ValidWait(wait time.Duration) error {
	if wait < 0 || wait > WaitMax {
		return fmt.Errorf("the wait is %v; 0 to 24h was expected", wait)
	}
	return nil
}

// ValidLockDelay tells what is wrong with a lock-delay.
func ValidLockDelay(d time.Duration) error {
	if d < 0 || d > LockDelayMax {
		return fmt.Errorf("the lock-delay is %v; 0 to 1h was expected", d)
	}
	return nil
}

// ValidDrill tells what is wrong with how long the outage of a drill lasts.
func ValidDrill(d time.Duration) error {
	if d <= 0 || d > DrillMax {
		return fmt.Errorf("the outage lasts %v; above 0 and at most 1h was expected", d)
	}
	return nil
}

// ValidRideThrough tells what is wrong with the time for which a lease goes on without
// an answer.
func ValidRideThrough(d time.Duration) error {
	if d <= 0 || d > RideThroughMax {
		return fmt.Errorf("the ride-through is %v; more than 0 and at most 24h was expected", d)
	}
	return nil
}

// ValidRide tells what is wrong with an acquire of so many different names that asks for
// a ride-through; 0: it asks for none. Only what claims may ride, since the guard alone
// stops it. Shared leases do not fence each other, and a lease of several names could be
// overtaken at one of them and go on at another.
func ValidRide(claims, shared bool, names int, rideThrough time.Duration) error {
	if rideThrough == 0 {
		return nil
	}
	if err := ValidRideThrough(rideThrough); err != nil {
		return err
	}
	switch {
	case !claims:
		return errors.New("a ride-through was asked for by an acquire that does not claim; " +
			"one that claims its guards before it acts was expected")
	case shared:
		return errors.New("a ride-through was asked for with a shared lease; an exclusive one or one of slots was expected")
	case names != 1:
		return fmt.Errorf("a ride-through was asked for with %d names; 1 was expected", names)
	}
	return nil
}

// ValidSlots tells what is wrong with a number of slots.
func ValidSlots(n int64) error {
	if n < 1 || n > SlotsMax {
		return fmt.Errorf("%d slots were asked for; 1 to %d were expected", n, SlotsMax)
	}
	return nil
}

// ValidValue tells what is wrong with a value.
func ValidValue(value []byte) error {
	if len(value) > ValueMax {
		return fmt.Errorf("the value has %d bytes; at most %d were expected", len(value), ValueMax)
	}
	return nil
}

func validText(what, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("the %s has %d bytes; at most %d were expected", what, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("the %s is not valid UTF-8", what)
	}
	return nil
}
