// Package memstore keeps a cell in memory: for tests, for pawltest and for the
// simulator. It is the protocol of package kvlog over a map.
//
// A Disk is the durable state; every Store on it is one server's way to it.
// Crash a Store and the Disk keeps what had landed. A Disk can be set back to
// an earlier state, filled up, and written to behind every server's back; a
// Store loses, holds and repeats what it sends as a test wants it. Everything
// is deterministic as long as the calls come one after the other.
//
// It promises what package store promises and nothing survives the process.
package memstore
