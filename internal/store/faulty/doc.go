// Package faulty stands between one server and its store: it loses, delays, refuses and
// repeats what the server sends, as a test decides.
//
// It works on any kvlog.KV, so that the memory store and a real one are tested under the
// same faults.
//
// It promises that what it passes on is unchanged. It does not damage what the store
// keeps: storetest.Place does.
package faulty
