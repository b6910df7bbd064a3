// Package trace follows acquires through every room from the caller to the store and
// back, for "pawl trace", and says how long each was where.
//
//	Follow ──► a way (stream.go, calls.go): one lap for each acquire and its release
//	       ──► Trace: the rooms of the way and the laps, as JSON or a table (report.go)
//
// The server counts from when it had read the request, the client by its own clock: no
// two machines' clocks are compared. What the client waited and the server does not
// account for is the wire's.
//
// It promises that each lease is released, also when a signal ends the trace. It does
// not measure the server under load: laps follow one another.
package trace
