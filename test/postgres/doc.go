// Package postgres starts a PostgreSQL server of its own for a test, a benchmark
// or a demonstration, and runs the contract of every guard, guardtest, on
// pgguard, along with what is particular to PostgreSQL.
//
// # What it promises
//
// The server lies in a temporary folder, is reached by a unix socket in it alone,
// runs as an unprivileged user, and ends with Stop or with the program that
// started it, whichever comes first. After Stop nothing of it is left; otherwise
// its folder is.
//
// # What it does not promise
//
// It is not for data: everybody on the machine who may reach the socket is a
// superuser, and unless Options.Durable is set a crash of the machine loses what
// was committed. It needs PostgreSQL's programs (scripts/deps says how to get
// them) and a Unix. It is a module of its own, so that users of pgguard do not
// get what its tests need.
package postgres
