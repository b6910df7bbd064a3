// Package small tries everything: in a world of two clients, two servers, one
// name and one guarded resource it lets happen whatever can happen, in every
// order, up to a depth. Nothing is drawn at random.
//
//	beginning ──► what can happen? ──► each of it ──► seen before? ──► judge
//	                  ▲                                   │ no
//	                  └───────────────────────────────────┘
//
// It drives the real lock table and the real step of the cell (step.Core), the
// real store protocol (kvlog over memstore.Disk), the real trust window and the
// real rule of the guards. What surrounds them is small: time goes by in quarters
// of the TTL, a connection is a queue each way, a message that never arrives is a
// lost one, and a client that does nothing is a paused one. A server's loop is a few
// lines. So is a client, on purpose: it may say at any time whatever the protocol lets a
// client say, which is more than the SDK ever does. Package sim runs the SDK's own code.
// A standby follows the log by the real step.Follower, one page in one step.
//
// It promises:
//
//   - Every order of the actions that a world's Bounds allow is tried up to
//     their depth, except orders that lead to a state that was seen before.
//     States are told apart by all that the future depends on (digest.go).
//   - After every action the judge has looked at I1–I7 and I9 (judge.go); what
//     it finds is told by the shortest list of actions that leads there.
//
// It does not promise anything beyond the bounds: package sim goes deeper, at
// random. Clocks here run right, and a store is never rolled back; package appends
// does that, with batches alone.
//
// States are not kept but reached again by repeating their actions, which costs
// time and spares the code under test any notion of being copied.
package small
