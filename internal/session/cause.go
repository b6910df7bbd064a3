package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Cause says why something failed, ended or blocks. It is a value: the driver
// makes an error of it. A nil Cause: nothing of the kind happened.
type Cause struct {
	Kind CauseKind
	// Refused is the server's answer, for Refusal.
	Refused *linkpb.Refused
	// NetworkErr is the network's error, for NetworkError: the machine hands it on.
	NetworkErr error
	// Server did not answer What, for Timeout.
	Server, What string
	// Message is the reason that was given for the break, for Broken and
	// BreakRequested.
	Message string
	// Under is what is wrong with the connection, for NoAnswer (nil: nothing is known),
	// and the server's answer, for SessionCopied.
	Under *Cause
	// Requests is the number of unanswered requests (TooManyRequests), or of those that
	// came after the unanswered Request (NumbersTooFarApart). Names is the number of
	// observed names (TooManyWatches).
	Requests, Names int
	Request         uint64
	// GuardErr is what the guard says, for Overtaken: the machine hands it on.
	GuardErr error
	// For is how long the name stays closed, for ClaimOnly.
	For time.Duration
	// TTL is the one that another call asked for (TTLSuperseded), or this one
	// (TTLUnchanged). Has is the one that stays in force, for TTLUnchanged.
	TTL, Has time.Duration
}

// CauseKind is what a Cause is about.
type CauseKind uint8

// The kinds.
const (
	// NetworkError: the connection failed, or could not be made.
	NetworkError CauseKind = iota + 1
	// Timeout: the server did not answer in time.
	Timeout
	// NoGreeting: the server's first message was no greeting.
	NoGreeting
	// InvalidAnswer: the server's answer has no sense.
	InvalidAnswer
	// Refusal: the server said no.
	Refusal
	// NoAnswer: no server answered in time.
	NoAnswer
	// ClientClosed: the client was closed.
	ClientClosed
	// TooManyRequests, NumbersTooFarApart, TooManyWatches: a limit of this client is
	// reached.
	TooManyRequests
	NumbersTooFarApart
	TooManyWatches
	// TTLSuperseded: another call asked for another TTL since.
	TTLSuperseded
	// TTLUnchanged: the server leaves the TTL as it was.
	TTLUnchanged
	// Released: the lease was released by this client.
	Released
	// DeadlinePassed: its deadline passed before a renewal was acknowledged.
	DeadlinePassed
	// Gone: the server does not have it any more.
	Gone
	// Broken: the lease was broken by force.
	Broken
	// BreakRequested: the holder is asked to let go. The lease is still held.
	BreakRequested
	// SessionCopied: a copy of this process goes on with the session.
	SessionCopied
	// RideOver: it has ridden for as long as it may.
	RideOver
	// Overtaken: a guard has seen a higher token, or one of another cell.
	Overtaken
	// ClaimOnly: the name is closed to acquires that do not claim.
	ClaimOnly
)

var (
	closed         = &Cause{Kind: ClientClosed}
	released       = &Cause{Kind: Released}
	deadlinePassed = &Cause{Kind: DeadlinePassed}
	gone           = &Cause{Kind: Gone}
	rideOver       = &Cause{Kind: RideOver}
	invalidAnswer  = &Cause{Kind: InvalidAnswer}
	noGreeting     = &Cause{Kind: NoGreeting}
)

// Refuse is the Cause for a refusal by a server, with its message.
func Refuse(reason linkpb.Reason, message string) *Cause {
	return &Cause{Kind: Refusal, Refused: &linkpb.Refused{Reason: reason, Message: message}}
}

func refusal(w *linkpb.Refused) *Cause { return &Cause{Kind: Refusal, Refused: w} }

// Is reports whether a server refused for this reason.
func (w *Cause) Is(reason linkpb.Reason) bool {
	return w != nil && w.Kind == Refusal && w.Refused.Reason == reason
}

// denied reports whether a server will not have this client.
func (w *Cause) denied() bool {
	return w.Is(linkpb.Reason_REASON_DENIED) || w.Is(linkpb.Reason_REASON_UNAUTHENTICATED)
}

func unavailable(trouble *Cause) *Cause { return &Cause{Kind: NoAnswer, Under: trouble} }
