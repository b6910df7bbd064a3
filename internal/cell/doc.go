// Package cell is one writer: it takes in commands, has the lock table decide
// them, lands what was decided in the store and answers.
//
//	fronts ──► intake ──► step.Core: lock table ──► batch ──► store (≤ InFlight on their way)
//	   ▲                        │                                │ landed
//	   └──── answers ◄── queue of groups, in order ◄─────────────┘
//
// It promises:
//
//   - Nothing leaves that shows what is not durable (I3). An answer leaves when
//     every batch decided before it is durable and a Confirm or an Append that
//     began after its request was received has succeeded; so a take-over comes
//     after the receipt of every renewal that was ever answered (I5).
//   - Answers leave in the order in which they were decided, with one exception:
//     while the store is full, what shows nothing of the records that it refuses
//     goes before what does (internal/step/full.go says why it may). Of very many that wait,
//     answers whose receivers are gone are dropped (internal/step/waiting.go).
//   - A session ends only by usable time: time in which the store confirmed the
//     tenure. A stalled server or store ends nobody.
//   - Renewals, releases and cancels are never refused for want of room and
//     never wait behind acquires.
//   - A sender that is faster than the cell blocks itself: a stream, and an
//     identity on all its streams and calls.
//   - While it stands by, it reads the log of the active server, and a take-over reads
//     what is new alone (follow.go).
//   - A renewal that comes alone waits for others to share its Confirm: 50 ms at
//     most, and not at all where the TTL is under 10 s.
//
// It does not promise to be the active server at any moment: a tenure may end
// without its server knowing, and whatever that server then decides is refused
// by the store and never answered.
//
// The decisions are package step's, which is pure. The loop that waits is in
// serve_tenure.go, run.go and append.go. An acquire that asks for it is followed
// (trace.go); it is decided and answered as every other. A drill is an outage that is made
// between the loop and its store (outage.go, drill.go), so that all above it does what it
// does when the store is silent.
package cell
