// Package sqlite runs the contract of every guard, guardtest, on sqlguard
// over real SQLite files, and holds what is particular to SQLite: its two
// journals, its busy answers and its deferred transactions.
//
// It is not in the module of sqlguard, so that users of sqlguard choose their driver
// themselves. It exports nothing.
package sqlite
