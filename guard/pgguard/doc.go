// Package pgguard guards what lies in PostgreSQL: the check of the fencing token
// belongs to the transaction that does the work, and commits or rolls back with
// it.
//
//	g := pgguard.New(pool)                   // a *pgxpool.Pool
//	err := g.Install(ctx)                    // once: makes the schema pawl
//	err = g.Claim(ctx, lease.Fence())        // acquire → claim → read → act
//	err = g.InTx(ctx, lease.Fence(), func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, `UPDATE …`)
//		return err
//	})
//
// The guard is SQL ([DDL]), so every program can be under it: its first statement
// is then SELECT pawl.enter(resource, cell, token). The page
// docs/guards-postgres.md tells the whole of it.
//
// # What it promises
//
//   - I6: once the database has committed fence t for a resource, by a claim or
//     by an operation, no transaction that entered with a lower token commits
//     after it. One that was open before holds the claim back until it has ended,
//     so that the claim is followed by a read of everything it did. That holds
//     under READ COMMITTED, REPEATABLE READ and SERIALIZABLE.
//   - Transactions of one holder run side by side, and cannot keep a claim of the
//     next holder waiting for ever by overlapping each other.
//   - A table under [Guard.Enforce] refuses every statement of a transaction that
//     did not enter, whatever program sends it.
//   - A claim that was answered is on the disk, and on the synchronous standbys,
//     also where the session's synchronous_commit asks for less, and also where
//     somebody cancels its wait for them (guard.ErrUnknown; for the work see
//     [ReportCancelledWaits]).
//   - Refused and busy leave no trace. The answer to a commit that was lost is
//     guard.ErrUnknown, never a refusal and never success; nothing is repeated
//     behind the caller's back once its function has run.
//   - Guard and data are rows of one database: a crash, a backup or a restore
//     takes them together.
//
// # What it does not promise
//
//   - A failover to a standby that had not received the last commits takes the
//     mark back with the data, and an old token passes until somebody claims. With
//     synchronous replication a claim that was answered survives; without, claim
//     again on the new primary before anything is read there. Two primaries at
//     once guard nothing together.
//   - It stops accidents, not attackers: a superuser, the tables' own role, and
//     a session that sets pawl.fence by hand get past it. A fence is not a credential.
//   - Without [Guard.Enforce] only transactions that enter are guarded, and
//     pawl.enter inside a savepoint that is rolled back is undone; with it, such a
//     transaction is refused.
//   - A database restored from a backup has the mark of that moment. Claim with a
//     freshly acquired lease before it is opened for writes.
//   - A resource without a row counts as unseen, and the first operation opens it
//     with any token. Nothing here deletes rows, and triggers refuse deletion, a
//     lower token and another cell.
//   - A holder that sleeps inside a transaction holds the next one up, which sees
//     [ErrBusy]. [Guard.Terminate] ends it; idle_in_transaction_session_timeout
//     does so unasked.
package pgguard
