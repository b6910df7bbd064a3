// Package sim is a whole world in one thread under one seed: servers, clients,
// clocks, a network, a store, guarded resources, and the faults of all of them.
// It runs the real lock table, the real step of the cell, the real store
// protocol, the real trust window and the real guard rule.
//
//	plan (drawn from the seed) ──► world: one heap of events, one true time
//	                                 │
//	   clients ⇄ network ⇄ servers ⇄ wire ⇄ disk        resources
//	                                 │
//	                              referee: watches the disk, the answers, what
//	                              holders believe and what resources take
//
// It promises that a seed gives the same world every time, down to the last
// event, and that what the referee finds is told with the line that runs it
// again, as small as it could be made, with a time line.
//
// It does not promise to find what no event order of its own can show: real
// sockets, real disks and real schedulers are tested elsewhere. The loop that
// waits (cell's run.go) and the SDK's core are imitated here, not run.
//
// What callers asked and were told can be recorded as well (Record), for
// checkers that know nothing of what happens inside.
//
// First everything goes wrong, then all is mended, and then every waiter must
// be served (I10) and nothing may be left behind (I8).
//
// Code that blocks (the store protocol) runs in fibers: coroutines that the
// world resumes, never two at a time, so nothing runs beside anything else.
package sim
