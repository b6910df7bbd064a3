// Package bounds is what a client may ask at most, and what a cell holds at most.
//
// It promises that the lock table, the SDK, the HTTP interface and the command line
// refuse the same requests, in the same words. docs/bounds.md lists the bounds for
// users, along with those that only one package needs, which stand in that package.
package bounds
