// Bench measures pawl and its peers side by side, in rounds that alternate
// between them in one run on one machine, and prints medians and ratios.
//
//	go run . quick                    about two minutes: pawl against etcd's Mutex
//	go run . full                     every row, about half an hour; writes docs/performance.md
//	go run . full -rows pairs,turns   some of them, and their parts of the page
//	go run . full -smoke              everything at a hundredth, to see that it runs
//
// make bench installs the peers first. What is not there is left out, and the
// ratio line that needed it says so.
//
// # How it measures
//
//   - Every server is a process of its own, on free ports of the loopback, with
//     its data in a temporary folder under -out: all on one disk. It ends with
//     this process, however that ends.
//   - All clients live in this process, so that a pair's client CPU is this
//     process' and its server CPU that of the side's servers.
//   - Every side is warmed up. Then each round measures every side once; who
//     begins changes. A ratio is the median of each round's ratio, as what
//     disturbs one round disturbs both sides. No result is thrown away.
//   - Two holders of one name, or a token that does not rise, on any side, fail
//     the run. So does a lost lease or session.
//
// # What is compared
//
// Durable things with durable things: pawl serve on its embedded store, etcd,
// ZooKeeper, and Redis with appendfsync always sync a grant before they answer
// it. Redis without persistence and PostgreSQL's advisory locks do not, and are
// shown as what a lock that forgets can do.
//
//   - Pairs: every caller acquires and releases a name of its own. The etcd side
//     has one session, as it needs no more.
//   - Hand-overs: callers take turns on one name. An etcd session cannot wait for
//     itself, so there every caller has one of its own; the pawl side has one
//     client. etcd's Mutex is slow here because a waiter's watch begins
//     unsynchronized and is looked after every 100 ms.
//   - One caller's acquire is also set against one put by an etcd client.
//   - Outages: the longest time between two grants around each end of a server.
//
// Numbers of two runs, or of two machines, say nothing about each other: compare
// what stands in one table. The profiles that a run leaves in out are taken
// after the measured rounds.
package main
