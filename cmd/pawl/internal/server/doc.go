// Package server puts a server of a cell together: store, cell, gRPC link, HTTP
// interface, metrics.
//
// It promises:
//
//   - nothing but the loopback is listened on unless the operator said so;
//   - a cell is never created while the clock is absurd, because the first
//     token would be, too, and tokens never go back;
//   - when it is asked to stop it resigns before it closes its doors, so that a
//     standby need not wait; when the store or the cell cannot go on it stops,
//     with an error that says why.
//
// It does not promise that clients notice a stop: their sessions live on in the
// log, and they go on with the next server.
package server
