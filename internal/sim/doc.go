// Package sim is a whole world in one thread under one seed: servers, clients,
// clocks, a network, a store, guarded resources, and the faults of all of them.
// It runs the code that ships: the SDK's session with its trust window, the link's
// language, the lock table, the step of the cell, the store protocol, the guard rule.
//
//	plan (drawn from the seed) ──► world: one heap of events, one true time
//	                                 │
//	   callers ── session ⇄ network ⇄ wire ── cell ── kvlog ⇄ disk      resources
//	                                 │
//	                              referee: watches the disk, the answers, what
//	                              holders believe and what resources take
//
// It promises:
//
//   - A seed gives the same world every time, down to the last event.
//   - A failure is printed with the command that runs it again, made as small as it
//     could be, with a time line.
//   - After a time with faults comes a time without. Then every waiter must be served
//     (I10) and nothing may be left behind (I8).
//
// It does not test what it imitates: the network (stream.go), the disk (disk.go), the
// clocks (clocks.go), and the goroutines around the code that ships, which are the loops
// of client and cell, the intake, streams and calls. Real sockets, disks and schedulers
// are tested elsewhere; docs/internals/proof.md lists where.
//
// Leases that ride through outages are in rides.go (the worlds), riding.go (their holders)
// and riders_check.go (what is promised of them).
//
// The calls and answers of all callers can be recorded (Record), for checkers that know
// nothing of what happens inside.
//
// Code that blocks (the store protocol) runs in coroutines. The world resumes them, never
// two at a time, so nothing runs concurrently.
package sim
