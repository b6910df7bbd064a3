package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Cause says why something failed, ended or blocks. It is a value: the driver
// makes an error of it. A nil Why stands for nothing of the kind.
type Cause struct {
	Kind CauseKind
	// Refused is what the server said, for Refusal.
	Refused *linkpb.Refused
	// NetworkErr is what the network said, for Network: the machine hands it on.
	NetworkErr error
	// Server did not answer What, for Silence.
	Server, What string
	// Message is the reason of who broke the lease, for Broken and LetGo.
	Message string
	// Under is what is wrong with the line, for NoAnswer (nil: nothing is known), and
	// what the server said, for Copied.
	Under *Cause
	// Requests are not answered (Crowded); Request is not, and Requests came after it
	// (Spread). Names are observed (Watches).
	Requests, Names int
	Request         uint64
	// TTL that another call asked for (TTLOvertaken), or that this one did (TTLKept),
	// where Has is the one that stands.
	TTL, Has time.Duration
}

// CauseKind of a Why.
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
	// TooManyRequests, Spread, Watches: a limit of this client's is reached.
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
)

var (
	closed         = &Cause{Kind: ClientClosed}
	released       = &Cause{Kind: Released}
	deadlinePassed = &Cause{Kind: DeadlinePassed}
	gone           = &Cause{Kind: Gone}
	invalidAnswer  = &Cause{Kind: InvalidAnswer}
	noGreeting     = &Cause{Kind: NoGreeting}
)

// Refuse is the Why of a server that said no in these words.
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
