// Package linear records the calls and answers of concurrent clients of a real server,
// under faults of network and server, and those of the simulator's clients. It has
// porcupine look for an order in which one simple lock could have given the same
// answers.
//
// # What it promises
//
// A history that a lock cannot have is a failure, and porcupine's drawing of it
// is kept. The lock that it is compared with knows exclusive, shared and slots:
//
//   - A grant takes effect at one moment between the call and its return, when
//     nothing that excludes it is held (I2, I4), with a token above all before
//     (I1), and if shared with the fence of the present run of readers.
//   - A lease ends by its release, by the close of its client, or by expiry:
//     never before its holder's local deadline, at any moment from then on, or
//     not at all (I5).
//   - An error says nothing. A release that ended with one takes effect at any
//     moment from its call until the end of time, or never; an acquire that ended
//     with one may leave a ghost, a grant that no client was told of, until its
//     client is known to have closed its session.
//   - An answer that a lease is gone is right if the lease does not hold the name.
//   - An answer that a name is held is right if the lease that it names held it at some
//     moment of the call.
//
// Names are checked one by one. Separate checks need no order: tokens rise over all
// names, a ghost has a client that asked for it, and a name that is not held is refused
// only if another client waits for it.
//
// # What it does not promise
//
// It does not check the order in which waiters are served, lock-delay, values, or that
// several names are granted at once. A forced break only lets a
// lease end. Simulated worlds whose store is set back, or whose clocks run worse
// than is promised for, are left out. An SDK world is drawn from a seed, but also depends
// on Go's scheduler: a seed that failed fails again often, not always.
// Finding an order is hard in the worst case, so porcupine may give up on a
// history; the test bounds how often.
package linear
