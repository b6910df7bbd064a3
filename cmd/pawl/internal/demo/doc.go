// Package demo shows with real processes what pawl is for: a holder that is
// paused past its lease comes back and finishes what it was doing, and one whose
// server is killed works on.
//
//	pawl demo zombie ──starts──▶ pawl serve            (embedded store)
//	        │────────starts──▶ worker A ─┐
//	        │────────starts──▶ worker B ─┴─▶ ledger    (SQLite, PostgreSQL, a bucket)
//	        ├─SIGSTOP, SIGCONT─▶ A                     (acts 1 and 2)
//	        └─SIGKILL, start again─▶ pawl serve        (act 3: A alone)
//
// Nothing is mocked: the server is this program's "serve", the workers are this
// program once more and use the public SDK, the ledger is a database, the pause is
// SIGSTOP, and the outage SIGKILL. The one arrangement is that A's work between
// reading and writing lasts until the demo says so: the pause meets it there every
// time.
//
// It promises to end no process that it did not start, to leave none behind, even if
// it is killed itself, and to remove its folder, its database on PostgreSQL and its objects in a bucket,
// unless it is killed. It reports success only when all acts came out as they must:
//
//  1. Without the guard an update is lost.
//  2. With it the late write is refused, and nothing is lost.
//  3. With it a worker's write is accepted without a server, its lease outlives the
//     outage under its token, and nothing is lost.
package demo
