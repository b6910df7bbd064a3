// Package pawl takes leases with fencing tokens from a pawl server.
//
//	c, err := pawl.Dial(ctx, []string{"127.0.0.1:7420"}, pawl.Options{Label: "billing"})
//	l, err := c.Acquire(ctx, "orders/7", pawl.Claim(guard))
//	defer l.Release(context.Background())
//
// # What it promises
//
//   - A lease is returned only when the server has granted it, durably. An unknown
//     outcome is an error, and a lease that was granted too late is given back (I8).
//   - [Lease.Context] ends at the local deadline: counted from the sending of
//     the last acknowledged renewal, on a clock that runs while the machine
//     sleeps, and before the server can grant the name to another (I5), a
//     forced break excepted. It needs no message from a server for that.
//   - A lease that claims its guards can outlive an outage of the service
//     ([RideThrough]): then the guard alone stops it (I6), and no deadline.
//   - Many readers or one writer ([Shared]), one of n places ([Slots]), several
//     names at once ([Names]) and terms of a leader ([Client.Campaign]) are leases
//     like any other, with the same deadline and their own fences.
//   - A higher TTL ([Client.SetTTL]) counts when the server has confirmed it, a
//     lower one at once.
//   - A credential ([Options]) leaves this machine over TLS or not at all.
//   - A lost connection is not a lost session. Requests keep their number, so
//     a request that is sent twice is one request.
//   - A lease that was lost never comes back. It is given up at the next
//     contact, before any new request.
//   - After [Client.Close] no goroutine is left.
//
// # What it does not promise
//
// The deadline alone makes nothing safe: a program that is paused between reading it
// and writing writes too late, whatever the client does. Only a guard at the
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
// A report of [Client.Observe] is news, not a permission. Each option says what
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
// loop never blocks, so a deadline is noticed in time. A stream that is stuck
// is dropped, and another one is opened.
package pawl
