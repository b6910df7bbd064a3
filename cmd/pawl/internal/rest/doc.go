// Package rest is the HTTP interface of a cell: sessions, leases, locks, break,
// status, health and metrics, described by /openapi.json.
//
// It promises:
//
//   - every refusal is application/problem+json with a reason, from every layer:
//     the cell, the decoding of a body, the routing;
//   - nothing is taken for granted about a request: an unknown, mistyped,
//     repeated or differently cased key, or an unknown or repeated query
//     parameter, is refused as invalid rather than ignored;
//   - numbers of 64 bits are strings, durations are written as Go writes them;
//   - no clock is read for a trace unless an acquire asks for one;
//   - an acquire that waits leaves the queue when its connection ends. With a request
//     id it keeps its place and is not granted meanwhile; it leaves the queue when the
//     request is not repeated within bounds.PlaceKept;
//   - a lease whose answer was lost ends within one TTL when it has a session of its
//     own. A lease in a session of several is found again by its request id (I8).
//
// It does not serve browsers: it refuses requests from other origins, and requests for
// a host that is neither the loopback nor configured.
//
// It decides nothing about leases. Both fronts, this one and the link, ask package
// service.
package rest
