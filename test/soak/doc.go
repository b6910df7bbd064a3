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
// order, the active one more often than another, and started again when the others have
// gone on; it prints, for each manner, how long nothing was granted.
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
