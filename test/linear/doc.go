// Package linear records what concurrent clients of a real server were told,
// while network and server suffer, and what those of the simulator's worlds were,
// and has porcupine look for an order in which one simple lock could have said
// the same.
//
// # What it promises
//
// A history that a lock cannot have is a failure, and porcupine's drawing of it
// is left behind. The lock it is held against knows exclusive, shared and slots:
//
//   - A grant takes effect at one moment between the call and its return, when
//     nothing that excludes it is held (I2, I4), with a token above all before
//     (I1), and if shared with the fence of the present run of readers.
//   - A lease ends by its release, by the close of its client, or by expiry:
//     never before its holder's local deadline, at any moment from then on, or
//     not at all (I5).
//   - An error says nothing. A release that ended with one takes effect at any
//     moment from its call until the end of time, or never; an acquire that ended
//     with one may leave a ghost, a grant that nobody was told of, until its
//     client is known to have closed its session.
//   - Who is told that a lease is gone is told so when it does not hold the name.
//   - Who is told that a name is held is told of a lease that held it at some
//     moment of the call.
//
// Names are checked one by one. That tokens rise over all of them is checked
// beside, as is what no order is needed for: that a ghost has somebody who asked
// for it, that a name which nobody holds is refused only if somebody waits for
// it.
//
// # What it does not promise
//
// The order in which waiters are served is not looked at, nor lock-delay and
// values, nor that several names are granted at once. A forced break only lets a
// lease end. Simulated worlds whose store is set back, or whose clocks run worse
// than is promised for, are left out. An SDK world is drawn from a seed, but Go's
// scheduler has its say: a seed that failed fails again often, not always.
// Finding an order is hard in the worst case, so porcupine may give up on a
// history; the test bounds how often.
package linear
