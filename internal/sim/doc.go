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
// It promises that a seed gives the same world every time, down to the last
// event, and that what the referee finds is told with the line that runs it
// again, as small as it could be made, with a time line.
//
// It does not promise to find what no event order of its own can show: real
// sockets, real disks and real schedulers are tested elsewhere. What is imitated here
// is network (stream.go), disk (disk.go) and time (clocks.go), and the goroutines
// around the code that ships: the loops of client and cell, the intake, streams and
// calls. docs/internals/proof.md lists it.
//
// What callers asked and were told can be recorded as well (Record), for
// checkers that know nothing of what happens inside.
//
// First everything goes wrong, then all is mended, and then every waiter must
// be served (I10) and nothing may be left behind (I8).
//
// Code that blocks (the store protocol) runs in coroutines: coroutines that the
// world resumes, never two at a time, so nothing runs beside anything else.
package sim
