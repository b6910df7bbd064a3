// Package client is how the subcommands of pawl reach a cell: the flags and variables
// that say where its servers are and how they are reached, and a client that asks one
// server after the other until one serves.
//
//	flags, environment ──► Target ──► Client: one request at a time, by gRPC calls
//	                              └─► Dial:   a client of the SDK, with a session
//
// A Client follows where a server sends it, gives up a server that says nothing any
// more, and asks again as long as its caller may wait. It promises that a request which
// took effect, or may have, is reported as such when its answer is lost, and that an
// error names each server that could not be reached and why, once.
//
// What it is given to do must be safe to repeat: it may be done at several servers, and
// at one server twice. It keeps no lease alive; that is the SDK's part.
package client
