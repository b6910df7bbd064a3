// Package storetest is the contract of package store as tests. Whatever passes
// it may stand under a cell; the simulator uses the memory store because both
// passed the same suite.
//
// A Place is an empty store together with the means to do harm to it: servers
// whose answers are lost, held or repeated, batches that vanish, a state that is
// set back. OnKV makes one from any kvlog.KV. Every test of the suite watches
// what was acknowledged and, at the end, reads the cell once more to see that
// nothing of it is gone and nothing else came in its place.
//
// The suite's own tests run it on flawed stores and see that each flaw
// is found.
package storetest
