// Package kvlog keeps a cell's tenure, log and snapshot in a linearizable
// key-value store whose keys carry the revision that last changed them: etcd,
// or the memory of a test. The protocol is written once, here; a store only has
// to implement KV.
//
// # Keys
//
//	tenure                      who is active: epoch, node, nonce, active-ttl
//	beat                        rewritten by the active server while it lives
//	log/<20 digits>             one sealed batch
//	snapshot                    which batch the snapshot follows, and its sums
//	snap/<batch>-<epoch>/<n>    the snapshot's chunks
//
// Keys of another form are none of ours and are never read as anything; only one
// that lies between two batches or chunks goes with them when they go.
//
// # What makes it safe
//
// Every write is one transaction that compares first, so it does nothing when
// it lands late, or again (I4):
//
//	claim     tenure and beat as they were when the wait began
//	fresh     no tenure, no log, no snapshot
//	open      tenure mine; log/h as replayed (or the snapshot, when h is its
//	          batch); no log/h+1       ⇒ delete log/h+2…, put log/h+1
//	append    tenure mine; no log/n; log/d, n−InFlight ≤ d < n, and the others
//	          of the last InFlight durable batches at the revisions that their
//	          puts were answered with   ⇒ put log/n
//	confirm   tenure mine; those batches likewise
//	chunk     tenure mine; no such chunk
//	publish   tenure mine; snapshot as read; log/m as read; last chunk as put;
//	          those batches likewise
//	truncate  tenure mine; snapshot as published
//	sweep     likewise
//	beat      tenure mine
//	resign    tenure mine
//
// "tenure mine" compares revision and value. The value holds 128 random bits:
// after a store was rolled back its revisions come a second time, and another
// server's tenure may lie at the revision mine had.
//
// When a comparison fails, the same transaction reads the tenure and the entry,
// and only (epoch, nonce, number) tells that an earlier try of mine landed.
//
// The cut and the opening batch are one transaction. Apart, this happens:
//
//  1. A claims, cuts behind h, and the answer of the cut is lost;
//  2. A tries the cut again; the first one had landed, A opens with h+1 and
//     appends h+2, which is acknowledged;
//  3. the second cut lands: h+2 is gone.
//
// # A store that is set back to before a take-over
//
// The deposed tenure is then in force once more, and comparing it finds nothing wrong.
// So a tenure ends itself in silence: from nine tenths of ActiveTTL after the sending
// of its last sign of life that was answered, it sends nothing and believes no answer.
// A standby waits for a whole ActiveTTL: that of the active server, which the tenure's
// value states (in JSON active_ttl, "3s").
//
// A store that is full refuses signs of life and claims alike. A refused sign of life
// counts as one; a refused claimant starts its wait again. A sole server has no standby
// and sends no beat.
//
// docs/internals/set-back.md gives the argument in steps, and the cases that stay open.
//
// # Standbys
//
// Follow reads the log without a tenure, and Resume goes on from there in one: follow.go
// says why that is safe, docs/internals/follow.md tells the races.
//
// # What it does not do
//
// It does not retry for the caller except while claiming. Beyond the above it
// trusts no clock: the time a standby waits decides only how soon it tries.
package kvlog
