// Package pawl takes leases with fencing tokens from a pawl server.
//
//	c, err := pawl.Dial(ctx, []string{"127.0.0.1:7420"}, pawl.Options{Label: "billing"})
//	l, err := c.Acquire(ctx, "orders/7", pawl.Claim(guard))
//	defer l.Release(context.Background())
//
// # What it promises
//
//   - A lease is returned only when the server has granted it, durably. What is
//     unknown is an error, and what was granted too late is given back (I8).
//   - [Lease.Context] ends at the local deadline: counted from the sending of
//     the last acknowledged renewal, on a clock that runs while the machine
//     sleeps, and before the server can grant the name to anybody else (I5), a
//     forced break excepted. It needs no word from a server to do so.
//   - Many readers or one writer ([Shared]), one of n places ([Slots]), several
//     names at once ([Names]) and terms of a leader ([Client.Campaign]) are leases
//     like any other, with the same deadline and their own fences.
//   - A higher TTL ([Client.SetTTL]) counts when the server has confirmed it, a
//     lower one at once.
//   - A credential ([Options]) leaves this machine over TLS or not at all.
//   - A lost connection is not a lost session. Requests keep their number, so
//     that one asked twice is one request.
//   - A lease that was lost never comes back. Its token is given up at the next
//     contact, before anything new is asked.
//   - After [Client.Close] no goroutine is left.
//
// # What it does not promise
//
// The deadline is a courtesy: a program that is paused between looking at it
// and writing writes too late, whatever any client does. Only a guard at the
// resource stops it (package guard). The order is
//
//	acquire → claim → read → act
//
// and the option [Claim] does the second step before Acquire returns.
//
// Nothing is reentrant: two acquires of one name exclude each other, in one
// process too. Two that take two names each, in different order, deadlock
// unless their contexts end; one acquire with [Names] does not.
//
// What [Client.Observe] tells is news, not a permission. Each option says what
// it does not give.
//
// # How it is made
//
//	callers ──intake──▶ loop ─▶ session.Machine (pure) ─▶ stream ══gRPC══▶ server
//	callers ◀──answers───────────────────┘       ▲           │
//	                                             └──lines────┘
//
// One goroutine per client, the loop, owns a session.Machine (internal/session),
// which holds all the state and makes all decisions from the time and the input
// that it is given; the loop makes leases, contexts and errors of them. The
// loop never blocks, so that a deadline is seen in time; a stream that is stuck
// is dropped and another one begun.
package pawl
