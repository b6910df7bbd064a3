// Package sqlite runs the contract of every guard, guardtest, on sqlguard
// over real SQLite files, and holds what is particular to SQLite: its two
// journals, its busy answers and its deferred transactions.
//
// It is a module of its own, so that the users of sqlguard choose their driver
// themselves. It exports nothing.
package sqlite
