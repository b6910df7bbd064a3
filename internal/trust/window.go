package trust

import (
	"math/bits"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

const (
	// DriftPPM is ρ in millionths: how wrong either clock's rate may be.
	DriftPPM = 1000
	// Margin is kept between the end of trust and the end of what was promised.
	Margin = 50 * time.Millisecond
	// sentMax bounds the renewals that are remembered until they are answered. Beyond
	// it every second one is forgotten, which can only make the deadline earlier.
	sentMax = 64
)

// Span is how long an acknowledged renewal is trusted, counted from its
// sending: ttl·(1−ρ)/(1+ρ) − Margin, rounded down, never negative.
func Span(ttl time.Duration, driftPPM int) time.Duration {
	if ttl <= 0 || driftPPM < 0 || driftPPM >= 1_000_000 {
		return 0
	}
	const million = 1_000_000
	hi, lo := bits.Mul64(uint64(ttl), uint64(million-driftPPM))
	q, _ := bits.Div64(hi, lo, uint64(million+driftPPM))
	return max(time.Duration(q)-Margin, 0)
}

// State is what a holder may think of its session.
type State uint8

const (
	// Lost: nothing was acknowledged for the whole span, or nothing ever was.
	Lost State = iota
	// Jeopardy: half of the span has gone by since the last acknowledged
	// renewal was sent. Everything is still ours.
	Jeopardy
	// Safe: renewals are being acknowledged.
	Safe
)

func (s State) String() string {
	return [...]string{"lost", "jeopardy", "safe"}[min(s, Safe)]
}

// Window is the trust in one session. The zero Window trusts nothing. It is
// not safe for use by several goroutines.
//
// When it is Lost, drop the Window with the session: an answer that
// comes in later could otherwise revive what was already declared lost.
type Window struct {
	span   time.Duration
	last   uint64
	sent   []sending
	anchor clock.Reading
	held   bool
	// floor: no answer to a renewal numbered up to here is awaited.
	floor uint64
	// acked is when the last acknowledged renewal was sent: the anchor, unless a lower
	// TTL has moved that.
	acked clock.Reading
}

type sending struct {
	number uint64
	at     clock.Reading
}

// Send notes that a renewal is about to be sent and returns its number, from 1,
// rising. Take the reading before the message can leave.
func (w *Window) Send(now clock.Reading) uint64 {
	w.last++
	if len(w.sent) == sentMax {
		for i := range sentMax / 2 {
			w.sent[i] = w.sent[2*i]
		}
		w.sent = w.sent[:sentMax/2]
	}
	w.sent = append(w.sent, sending{w.last, now})
	return w.last
}

// Ack notes that renewal n, and with it every lower one, was answered with a promise of
// ttl. Answers may be missing, repeated or out of order: an answer to a number that is
// not awaited changes nothing. Ack reports whether the deadline moved.
//
// When too many renewals are on their way, n may not be remembered. Then the deadline
// counts from the newest remembered one below n, which was sent earlier.
func (w *Window) Ack(n uint64, ttl time.Duration) bool {
	if n <= w.floor || n > w.last {
		return false
	}
	i := len(w.sent) - 1
	for i >= 0 && w.sent[i].number > n {
		i--
	}
	if i < 0 {
		return false
	}
	w.anchor, w.held, w.floor = w.sent[i].at, true, n
	w.acked = w.anchor
	w.span = Span(ttl, DriftPPM)
	w.sent = append(w.sent[:0], w.sent[i+1:]...)
	return true
}

// Ask notes that renewals ask for another TTL from now on. A higher one counts when it
// is answered. A lower one counts at once: the deadline is at most its span away, and
// earlier renewals no longer count, since their answers would move the deadline beyond
// that span or, if read as the lower TTL, back.
func (w *Window) Ask(now clock.Reading, ttl time.Duration) {
	span := Span(ttl, DriftPPM)
	if !w.held {
		return
	}
	if span < w.span {
		if w.Remaining(now) > span {
			w.anchor, w.span = now, span
		}
		w.Forget()
	}
}

// Forget drops the renewals that are awaited: the connection that they were
// sent on is gone, and no answer to them will be believed.
func (w *Window) Forget() { w.sent, w.floor = w.sent[:0], w.last }

// Anchor returns the reading that the deadline counts from and how long after
// it the deadline lies; false when nothing was acknowledged yet.
func (w *Window) Anchor() (from clock.Reading, span time.Duration, ok bool) {
	return w.anchor, w.span, w.held
}

// Acknowledged is when the last renewal that was acknowledged was sent. Asking for a
// lower TTL moves the Anchor, but not this.
func (w *Window) Acknowledged() clock.Reading { return w.acked }

// Remaining is the time until the deadline, never negative.
func (w *Window) Remaining(now clock.Reading) time.Duration {
	if !w.held {
		return 0
	}
	return max(w.span-now.Longer(w.anchor), 0)
}

// State at this moment.
func (w *Window) State(now clock.Reading) State {
	switch r := w.Remaining(now); {
	case r == 0:
		return Lost
	case r <= w.span/2:
		return Jeopardy
	default:
		return Safe
	}
}

// Change is the time until the State gets worse by itself; 0 when it is Lost.
func (w *Window) Change(now clock.Reading) time.Duration {
	r := w.Remaining(now)
	if half := w.span / 2; r > half {
		return r - half
	}
	return r
}

// Unanswered is how long the oldest awaited renewal has been waiting; false
// when none is awaited.
func (w *Window) Unanswered(now clock.Reading) (time.Duration, bool) {
	if len(w.sent) == 0 {
		return 0, false
	}
	return now.Longer(w.sent[0].at), true
}
