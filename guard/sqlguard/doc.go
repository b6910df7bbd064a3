// Package sqlguard guards what lies in a database/sql database: the check of
// the fencing token is the first statement of the transaction that does the
// work, and commits or rolls back with it.
//
//	g := sqlguard.New(db, sqlguard.SQLite())
//	err := g.Install(ctx)                    // once: makes the guard's tables
//	err = g.Claim(ctx, lease.Fence())        // acquire → claim → read → act
//	err = g.InTx(ctx, lease.Fence(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, `UPDATE …`)
//		return err
//	})
//
// # What it promises
//
//   - I6: once the database has committed fence t for a resource, by a claim or
//     by an operation, no transaction that entered with a lower token commits
//     after it. One that was open before holds the claim back ([ErrBusy], or a
//     wait within the driver's busy timeout) until it has ended, so that the
//     claim is followed by a read of everything it did.
//   - Refused and busy leave no trace: the transaction is rolled back.
//   - The answer to a commit that was lost is guard.ErrUnknown, never a refusal
//     and never success.
//   - Guard and data are rows of one database: a crash, a backup or a restore
//     takes them together.
//
// # What it does not promise
//
//   - Only transactions that enter are guarded. Statements outside of them, of
//     other programs or by hand, are not held back.
//   - [Guard.Enter] inside a savepoint that is rolled back is undone, and what
//     the transaction does afterwards is unguarded. Enter first.
//   - A resource counts as unseen when it has no row, and the first operation
//     opens it with any token. Nothing here deletes rows, and the tables' own
//     triggers refuse every statement that deletes a mark, lowers it or gives it
//     another cell: DELETE, UPDATE, REPLACE, INSERT OR REPLACE, an upsert, also
//     through ATTACH. To hand a database over to another cell, stop all holders,
//     drop the trigger pawl_guard_keep, delete the rows and Install again.
//   - That is against accidents. Who may write the file can still take marks back:
//     by dropping or renaming a trigger or a table, PRAGMA writable_schema,
//     switching triggers off (SQLITE_DBCONFIG_ENABLE_TRIGGER), a TEMP trigger on
//     the table, or by replacing the file. SQLite has no roles that could be
//     denied that.
//   - Offsets have no such triggers. They move by [Guard.Offset], or by hand.
//   - A table that was made by hand with a rowid, as by the README's statement,
//     lets REPLACE name the rowid of another row, which is then deleted. The one
//     that Install makes has none.
//   - A database restored from a backup has the mark of that moment. Claim with
//     a freshly acquired lease before it is opened for writes.
//   - SQLite on a network file system is unsafe with or without a guard. A power
//     loss may take back what was committed, an answered claim with it, under
//     synchronous=OFF, and under NORMAL with the write-ahead log; not under FULL,
//     which is SQLite's default.
//
// # SQLite
//
// The guard lies in the schema main of the connection: a TEMP table of the same name
// is not reached, nor the guard of an attached database. Statements of your own
// should say main.pawl_guard, too. Data in an attached database is guarded as well,
// but for a crash in the middle of a commit, after which SQLite may have one of the
// two files and not the other where the write-ahead log is on. Keep both in one file.
//
// SQLite has one writer at a time, so the operations of one holder take turns.
// A transaction of database/sql begins DEFERRED there: it takes the write lock
// at its first writing statement, and one that has read before may fail at that
// moment. The guard's first statement writes, so a transaction that enters first
// holds the lock before it reads anything. Set a busy timeout in the data source
// name unless ErrBusy is to come back at once.
package sqlguard
