// Package locktable is the lock table of a cell, as data: a command and a time
// go in, decided events and answers come out. It reads no clock, starts no
// goroutine, draws nothing at random and does no I/O.
//
// It promises:
//
//   - Apply alone changes what is decided. A live table and one that is rebuilt
//     from the log, or from a snapshot and the log after it, are equal (I9).
//   - Tokens strictly increase in the order of grants (I1); a name has at most
//     one exclusive holder, or shared ones, or as many as it has slots (I2); a
//     waiter is granted only while its session, or the connection it waits on,
//     lives (I7).
//   - A waiter is not overtaken by a later one, except while it is detached, or does not
//     claim and one of its names is claim-only (I10).
//   - While a holder that rides may be going on, its name is granted only to acquires that
//     claim (I6).
//
// It does not promise that an answer is final: the caller of Decide keeps the
// answers back until the events before them are durable (I3).
//
// What is decided (sessions, leases, the counter) and what is not (deadlines,
// who waits, which stream a session has) live side by side in the same structs;
// only the first kind is logged, in snapshots and compared.
//
// A session's end is one event. The names that it frees go on a work list,
// served in bounded portions by Work, so that thousands ending together starve
// nobody; a command that touches such a name removes it at once.
package locktable
