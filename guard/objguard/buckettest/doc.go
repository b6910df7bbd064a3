// Package buckettest is the contract that every objguard.Bucket passes, and a bucket in
// memory whose requests can be lost, delayed and repeated.
//
// # What it promises
//
// A bucket that fails a rule lets objguard lose a write or tell something untrue. The
// package's own tests run the rules against buckets that are broken on purpose, one way
// each.
//
// # What it does not promise
//
// The rules see one process on one machine. Whether a store keeps its conditions under
// races, on its own service and after a failover, is what guard/objguard/probe tries.
package buckettest
