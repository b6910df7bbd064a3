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
// Then the deposed tenure is in force once more, and nothing in the store tells
// its server, which compares what it always compared. It would grant below
// what its lost successor granted (I1). So a tenure ends itself in silence: from
// nine tenths of ActiveTTL after the sending of its last sign of life that was
// answered, it sends nothing and believes no answer.
//
//  1. A's beat k is sent at s, lands, and is answered before s + 0.9 ttl: an
//     answer that comes later ends A's tenure, even if the beat landed;
//  2. a standby B that sees beat k or the claim itself looks on for a whole ttl,
//     A's, on its own clock and without a change, and claims at c. It looked after k
//     had landed, so c ≥ s + ttl;
//  3. A sends nothing after s + 0.9 ttl, so whatever of A's ever lands was decided
//     before c, and so before all that B grants;
//  4. the store is set back to before c. A, cut off, stopped or asleep since,
//     checks its clock before it sends, and ends. The next claimant, A
//     with haste, opens its counter at the wall clock's line: above B's grants.
//
// Appends and confirms that succeed do not count as signs of life: B does not
// look at them. The clock is the longer of the two, so that sleep counts; a
// tenth is far more than clocks differ by. A sole server has nobody to fear, and
// no beat.
//
// Servers of one cell may have different ActiveTTLs; so the value of the tenure key
// states A's (in JSON active_ttl, "3s"), and standbys use that. If B used
// its own, this would happen:
//
//  1. A's ActiveTTL is 9 s, B's 3 s. A's beat k, sent at s, is answered, and A loses
//     its way to the store; it may go on until s + 8.1 s;
//  2. B sees no sign for 3 s, claims at s + 3 s and grants token 20;
//  3. the store is set back to before the claim, and A's way is mended, at s + 6 s:
//     A finds its tenure in force, and grants token 10.
//
// The other way round B would only be late. A key without it was written by a
// version before, and B has but its own to go by; such a version does not look at A's
// either. While there are any, all servers of a cell need one ActiveTTL.
//
// What remains:
//
//  1. A decides a grant with token t before c, and its append stays under way, or
//     A is stopped between its look at the clock and the sending;
//  2. B claims, grants above t, and the store is set back to before c;
//  3. the append lands. A is over and tells nobody;
//  4. the next tenure finds the grant in the log, and tells its holder.
//
// The next tenure sees just what it would see if A had told the holder and died,
// so it must keep the lease. It was decided before B's grants and is told after
// some of them: to a guard that B's holders have claimed it is stale. The same
// holds for a server whose clocks stand still (a machine that its host stopped
// without telling it), and for a store set back twice within one ActiveTTL, to
// before a beat and then to before the claim that this made early.
//
// A store that is full refuses signs of life and claims alike, for as long as
// it takes its operator to make room. A refused one counts as a sign of life,
// since a tenure that ended then would have no successor and every lease would
// be lost for want of room; a refused claimant begins to wait anew. What this
// leaves: room is made, the standby's wait ends before the next sign of life, it
// claims, and within one ActiveTTL the store is set back to before that.
//
// # What it does not do
//
// It does not retry for the caller except while claiming. Beyond the above it
// trusts no clock: the time a standby waits decides only how soon it tries.
package kvlog
