// Package faulty is a bad way to a good store: it loses, holds, refuses and
// repeats what one server sends, and lets a test decide which.
//
// It works on any kvlog.KV, so that the memory store and a real one are put
// through the same faults. It changes nothing of what it passes on.
package faulty
