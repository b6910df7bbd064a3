// Package clock is the only reader of clocks.
//
// A clock is a value that is handed down; there is no package-level "now". It
// gives readings, which mean something only against other readings of the same
// clock, and timers. Everything that decides about a lease works on the
// difference of two readings; the wall clock labels events and opens the token
// counter, and decides nothing else.
//
// A holder counts the larger of boot time and raw monotonic time, so that a
// suspended machine finds its lease spent; a server counts the smaller, so that
// it never ends a session early. A pause between two readings is counted by
// both; nothing here can tell a pause from slow work, and nothing relies on it.
//
// On systems other than Linux both are Go's monotonic clock, which may stand
// still during suspend: only a guard at the resource covers that.
package clock
