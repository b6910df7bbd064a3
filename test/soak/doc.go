// Soak kills a server under load, again and again, and checks that nothing that
// it had acknowledged was forgotten and nothing that it had ended came back.
//
//	soak -pawl .bin/pawl -kills 200
//
// It starts a real server on the embedded store in a folder of its own, works on
// it through the SDK (holds of all lengths, queues, callers that give up) and
// through calls without a stream (request ids, leases that nobody renews), and
// sends SIGKILL at random moments, some of them before the server was up again.
// Work that is under way goes on by itself; a call that failed has an unknown
// outcome and proves nothing.
//
// With -servers 3 they keep one cell together. Each in turn is killed or stopped in
// order, and started again when the others have gone on; the active one is killed when
// its member leads, any other one while its member does not. It prints, for each manner,
// how long nothing was granted, and how often that was longer than its limit.
//
// With -growth 10 nothing is killed. A server that is alone is started again as a quorum
// of one, grows to three while it serves, and then each of the three is restarted in
// turn; ten times, each on empty folders. The workers are those of the SDK and some that
// write guarded counters: each reads a counter, and adds to what it read. The last line
// has what was lost (writes that were accepted and are not in their counter), the leases
// that ended without their holder's doing, and the longest time without a grant in each
// step, its median and its maximum over the runs.
//
// The ledger is the checker. It is told what was acknowledged, what was promised
// and what was seen, each with its moment, and counts:
//
//   - lost: a lease ended while its holder could count on it: it had been
//     acknowledged, its holder had not begun to release it, and its local
//     deadline had not passed;
//   - repeated tokens: a token granted twice, or not above every token that was
//     acknowledged before it was asked for (I1);
//   - revived: a lease shown as held after it had certainly ended (I9).
//
// The last line is "kills: 200 lost: 0 repeated tokens: 0 revived: 0", and the
// exit code is 0 when all that was asked for was done, nothing was found, every
// waiter was served and every long-held lease kept its token through all kills.
package main
