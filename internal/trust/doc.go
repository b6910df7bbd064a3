// Package trust tells a holder for how long it may believe that its leases are
// its own.
//
// # What it promises
//
// The deadline counts from the *sending* of the last renewal that was
// acknowledged, never from the arrival of the answer: the server counts the
// session's time from the moment the renewal reached it, which is later. Both
// clocks may run wrong by ρ in opposite directions, and a margin is left for
// the work between reading a clock and acting on it:
//
//	deadline = send + TTL·(1−ρ)/(1+ρ) − Margin
//
// So a deadline lies before the server's expiry (invariant I5) as long as the
// clocks keep within ρ. Opening a session and attaching to it are renewals like
// any other; the answer to an acquire is not one.
//
// The TTL is that of the answer: when a holder asks for another one, a higher TTL
// counts from the answer on, and a lower one from the asking on.
//
// # What it does not promise
//
// Nothing here makes a resource safe. A holder that is paused between looking
// at the deadline and acting is late all the same; only a guard at the resource
// refuses it.
//
// The package is pure: it reads no clock, and starts nothing.
package trust
