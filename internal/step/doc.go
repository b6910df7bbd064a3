// Package step is what one writer decides, without the loop that waits: the time and the
// commands of a turn go in; batches to append, a Confirm to begin and answers that have
// become final come out. It reads no clock, starts no goroutine and waits for nothing.
// Package cell runs it, and the simulator runs the same code in a time of its own.
//
//	Step(time, commands) ► lock table ► Batch ──► the driver appends it ──► Landed
//	                            │                                            │
//	                            └► queue of groups, in order ◄── durable and confirmed
//	                                          └► Take: Actions
//
// It promises:
//
//   - No answer is final that shows what is not durable (I3): every batch that was
//     decided before it has landed, and a Confirm or an Append that began after its
//     request was received has succeeded.
//   - Answers become final in the order in which they were decided, but on a full store
//     (full.go), and some are dropped when very many wait (waiting.go).
//   - Sessions end by usable time alone (usable.go).
//
// It does not look for its driver's mistakes: a batch landed twice, or a Confirm answered
// that was not begun, is not found out.
package step
