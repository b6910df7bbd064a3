// Package link is the gRPC front of a cell: one bidirectional stream per
// session, and unary calls for what the HTTP interface offers as well.
//
// # The stream
//
//	client ──Hello──▶ Attach ──▶ cell           first message of either side: its greeting
//	client ◀─Welcome─ outbox ◀── cell
//	client ──requests, renewals (coalesced)──▶ one cell.Message per message
//	client ◀─replies, notices (coalesced)──── whatever had gathered in the outbox
//
// Three goroutines serve a stream: one receives, one sends, and the handler
// waits for the first of them to end, or for the outbox to overflow. Before it
// closes a message the sender drains the outbox, yields once and drains it
// again, which makes batches of what would otherwise be single answers.
//
// # What it promises
//
//   - What leaves through a stream was handed over by the cell as final (I3);
//     the link adds nothing of its own about leases.
//   - A stream asks for what its caller is allowed to (package access), at the
//     moment of asking. When that changes, or its certificate is over, it ends.
//   - A reader that lets OutboxMax bytes of answers pile up is disconnected. A
//     client that does not greet within GreetingMax is disconnected.
//   - A client whose protocol version is a neighbour of ours is served; any
//     other is told so.
//   - A stream to a server that is not the active one ends with Closed, which
//     names the active one where it is known.
//
// # What it does not promise
//
// It keeps no state between streams. That a request is answered once, whatever
// the network does, is the work of the cell and of the request's number.
package link
