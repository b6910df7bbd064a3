package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Why says why something failed, ended or is in the way. It is a value: its driver
// makes an error of it. A nil Why stands for nothing of the kind.
type Why struct {
	Kind Kind
	// Refused is what the server said, for Refusal.
	Refused *linkpb.Refused
	// Err is what the network said, for Network: the machine hands it on.
	Err error
	// Server did not answer What, for Silence.
	Server, What string
	// Message is the reason of who broke the lease, for Broken and LetGo.
	Message string
	// Under is what is wrong with the line, for NoAnswer (nil: nothing is known), and
	// what the server said, for Copied.
	Under *Why
	// Requests are not answered (Crowded); Request is not, and Requests came after it
	// (Spread). Names are observed (Watches).
	Requests, Names int
	Request         uint64
	// TTL that another call asked for (TTLOvertaken), or that this one did (TTLKept),
	// where Has is the one that stands.
	TTL, Has time.Duration
}

// Kind of a Why.
type Kind uint8

// The kinds.
const (
	// Network: the connection failed, or could not be made.
	Network Kind = iota + 1
	// Silence: the server did not answer in time.
	Silence
	// NoGreeting: the server's first message was no greeting.
	NoGreeting
	// Nonsense: the server's answer has no sense.
	Nonsense
	// Refusal: the server said no.
	Refusal
	// NoAnswer: no server answered in time.
	NoAnswer
	// Closed: the client was closed.
	Closed
	// Crowded, Spread, Watches: a limit of this client's is reached.
	Crowded
	Spread
	Watches
	// TTLOvertaken: another call asked for another TTL since.
	TTLOvertaken
	// TTLKept: the server leaves the TTL as it was.
	TTLKept
	// Released: the lease was released by this client.
	Released
	// Overdue: its deadline passed before a renewal was acknowledged.
	Overdue
	// Gone: the server does not have it any more.
	Gone
	// Broken: the lease was broken by force.
	Broken
	// LetGo: the holder is asked to let go. The lease is still held.
	LetGo
	// Copied: a copy of this process goes on with the session.
	Copied
)

var (
	closed     = &Why{Kind: Closed}
	released   = &Why{Kind: Released}
	overdue    = &Why{Kind: Overdue}
	gone       = &Why{Kind: Gone}
	nonsense   = &Why{Kind: Nonsense}
	noGreeting = &Why{Kind: NoGreeting}
)

// Refuse is the Why of a server that said no in these words.
func Refuse(reason linkpb.Reason, message string) *Why {
	return &Why{Kind: Refusal, Refused: &linkpb.Refused{Reason: reason, Message: message}}
}

func refusal(w *linkpb.Refused) *Why { return &Why{Kind: Refusal, Refused: w} }

// Is reports whether a server refused for this reason.
func (w *Why) Is(reason linkpb.Reason) bool {
	return w != nil && w.Kind == Refusal && w.Refused.Reason == reason
}

// denied reports whether a server will not have this client.
func (w *Why) denied() bool {
	return w.Is(linkpb.Reason_REASON_DENIED) || w.Is(linkpb.Reason_REASON_UNAUTHENTICATED)
}

func unavailable(trouble *Why) *Why { return &Why{Kind: NoAnswer, Under: trouble} }
