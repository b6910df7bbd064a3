package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// text says a Why in the words of the SDK's errors.
func text(w *Cause) string {
	if w == nil {
		return "<nil>"
	}
	because := func(kind, message string) string {
		if message == "" {
			return kind
		}
		return kind + ": " + message
	}
	switch w.Kind {
	case NetworkError:
		return w.NetworkErr.Error()
	case Timeout:
		return fmt.Sprintf("no answer to a %s from %s", w.What, w.Server)
	case NoGreeting:
		return "the server did not greet"
	case InvalidAnswer:
		return "the server's answer makes no sense"
	case Refusal:
		return because(refusalText(w.Refused.Reason), w.Refused.Message)
	case NoAnswer:
		switch {
		case w.Under == nil:
			return "no server answered"
		case w.Under.denied() || w.Under.Is(linkpb.Reason_REASON_EXHAUSTED) || w.Under.Is(linkpb.Reason_REASON_UNAVAILABLE):
			return text(w.Under)
		}
		return "no server answered: " + text(w.Under)
	case ClientClosed:
		return "client closed"
	case TooManyRequests:
		return fmt.Sprintf("limit reached: %d requests of this client are not answered", w.Requests)
	case NumbersTooFarApart:
		return fmt.Sprintf("limit reached: request %d of this client is not answered, and %d came after it", w.Request, w.Requests)
	case TooManyWatches:
		return fmt.Sprintf("limit reached: this client observes %d names", w.Names)
	case TTLSuperseded:
		return fmt.Sprintf("conflict: another call made the TTL %v meanwhile", w.TTL)
	case TTLUnchanged:
		return fmt.Sprintf("invalid: the server leaves the TTL at %v and does not make it %v", w.Has, w.TTL)
	case Released:
		return "lease released"
	case DeadlinePassed:
		return "lease lost: its deadline passed before a renewal was acknowledged"
	case Gone:
		return "lease lost: the server no longer has it"
	case Broken:
		return because("lease broken", w.Message)
	case BreakRequested:
		return "lease broken: asked to let go: " + w.Message
	case SessionCopied:
		return "lease lost: " + text(w.Under)
	case RideOver:
		return "lease lost: its ride is over"
	case Overtaken:
		return "lease lost: overtaken: " + w.GuardErr.Error()
	case ClaimOnly:
		return fmt.Sprintf("closed to acquires that do not claim for %v", w.For)
	}
	panic(fmt.Sprint("nobody knows the kind ", w.Kind))
}

func refusalText(reason linkpb.Reason) string {
	switch reason {
	case linkpb.Reason_REASON_HELD:
		return "held by another lease (token 0)"
	case linkpb.Reason_REASON_INVALID, linkpb.Reason_REASON_TOKEN_MISMATCH:
		return "invalid"
	case linkpb.Reason_REASON_UNAUTHENTICATED:
		return "unauthenticated"
	case linkpb.Reason_REASON_DENIED:
		return "denied"
	case linkpb.Reason_REASON_GONE:
		return "lease lost"
	case linkpb.Reason_REASON_CONFLICT:
		return "conflict"
	case linkpb.Reason_REASON_EXHAUSTED:
		return "limit reached"
	case linkpb.Reason_REASON_STORE_ROLLED_BACK:
		return "store rolled back"
	}
	return "no server answered"
}

func eventText(kind EventKind) string {
	return map[EventKind]string{Safe: "safe", Jeopardy: "jeopardy", Riding: "riding", Lost: "lost", RolledBack: "rolled back"}[kind]
}

func attemptText(a *Attempt) string {
	text := fmt.Sprintf("dial %s session %q generation %d", a.Server, a.Hello.Session, a.Hello.Generation)
	if len(a.Hello.Held) > 0 || len(a.Hello.Wanted) > 0 {
		text += fmt.Sprintf(" held %v wanted %v", a.Hello.Held, a.Hello.Wanted)
	}
	if ttl := time.Duration(a.Hello.TtlNano); ttl != 3*time.Second {
		text += fmt.Sprintf(" ttl %v", ttl)
	}
	if riding := time.Duration(a.Hello.RidingNano); riding > 0 {
		text += fmt.Sprintf(" riding for %v", riding.Truncate(time.Millisecond))
	}
	if a.Hello.HighestToken > 0 {
		text += fmt.Sprintf(" seen %d", a.Hello.HighestToken)
	}
	if len(a.Closing) > 0 {
		text += fmt.Sprintf(" giving up %q", a.Closing)
	}
	if a.Hello.Unreached != "" {
		text += " past " + a.Hello.Unreached
	}
	return text
}

func messageText(x *linkpb.ClientMessage) string {
	text := fmt.Sprintf("send finished %d", x.FinishedBelow)
	if x.FinishedBelow == 0 {
		text = "send"
	}
	if x.Renewal != 0 {
		text += fmt.Sprintf(" renewal %d", x.Renewal)
	}
	if x.TtlNano != 0 {
		text += fmt.Sprintf(" ttl %v", time.Duration(x.TtlNano))
	}
	requests := make([]string, len(x.Requests))
	for i, r := range x.Requests {
		requests[i] = " " + requestText(r)
	}
	text += strings.Join(requests, "")
	if len(x.Unobserve) > 0 {
		text += fmt.Sprintf(" unobserve %v", x.Unobserve)
	}
	if len(x.Observe) > 0 {
		text += fmt.Sprintf(" observe %v", x.Observe)
	}
	if x.Close {
		text += " close"
	}
	return text
}

func requestText(r *linkpb.Request) string {
	switch w := r.What.(type) {
	case *linkpb.Request_Acquire:
		a, verb := w.Acquire, "acquire"
		if a.Try {
			verb = "try"
		}
		text := fmt.Sprintf("%d:%s(%s", r.Number, verb, strings.Join(a.Names, ","))
		if a.Shared {
			text += " shared"
		}
		if a.Slots != 0 {
			text += fmt.Sprintf(" slots=%d", a.Slots)
		}
		if a.Value != nil {
			text += fmt.Sprintf(" value=%s", a.Value)
		}
		if a.LockDelayNano != 0 {
			text += fmt.Sprintf(" delay=%v", time.Duration(a.LockDelayNano))
		}
		if a.Claims {
			text += " claims"
		}
		if a.RideThroughNano != 0 {
			text += fmt.Sprintf(" ride=%v", time.Duration(a.RideThroughNano))
		}
		text += ")"
		if a.Ticket != nil {
			text += fmt.Sprintf("[%s]", a.Ticket)
		}
		if a.Replaces != 0 {
			text += fmt.Sprintf("[replaces %d]", a.Replaces)
		}
		return text
	case *linkpb.Request_Release:
		if w.Release.Lost {
			return fmt.Sprintf("%d:lost(%d)", r.Number, w.Release.Token)
		}
		return fmt.Sprintf("%d:release(%d)", r.Number, w.Release.Token)
	case *linkpb.Request_Check:
		return fmt.Sprintf("%d:check(%d)", r.Number, w.Check.Token)
	case *linkpb.Request_Cancel:
		return fmt.Sprintf("%d:cancel(%d)", r.Number, w.Cancel.Number)
	}
	return "?"
}

// wish takes in an option of an acquire.
func wish(w *AcquireSpec, option string) {
	switch name, value, _ := strings.Cut(option, "="); name {
	case "shared":
		w.Shared = true
	case "slots":
		w.Slots = int(number(value))
	case "value":
		w.Value = []byte(value)
	case "delay":
		w.LockDelay = span(value)
	case "claims":
		w.Claims = true
	case "ride":
		w.Claims, w.RideThrough = true, span(value)
	default:
		panic(option)
	}
}

func reasonNamed(s string) linkpb.Reason {
	if s == "" {
		return linkpb.Reason_REASON_UNSPECIFIED
	}
	n, ok := linkpb.Reason_value["REASON_"+strings.ToUpper(s)]
	if !ok {
		panic(s)
	}
	return linkpb.Reason(n)
}
