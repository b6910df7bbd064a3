// Bench measures pawl and its peers side by side, in rounds that alternate
// between them in one run on one machine, and prints medians and ratios.
//
//	go run . quick     about two minutes: pawl against etcd's Mutex
//
// What is compared is durable on both sides: pawl serve on its embedded store,
// and concurrency.Mutex on an etcd server of its own. Both servers are processes
// of their own with their data on one disk, and both clients live in this
// process: one pawl client, one etcd client.
//
//   - Pairs: every caller acquires and releases a name of its own. The etcd side
//     has one session, as it needs no more.
//   - Hand-overs: callers take turns on one name. An etcd session cannot wait for
//     itself, so there every caller has one of its own; the pawl side has one
//     client. etcd's Mutex is slow here because a waiter's watch begins
//     unsynchronized and is looked after every 100 ms.
//   - One caller's acquire is also set against one put by an etcd client.
//
// Numbers of two runs, or of two machines, say nothing about each other: compare
// what stands in one table. The profiles that a run leaves in out are taken
// after the measured rounds.
package main
