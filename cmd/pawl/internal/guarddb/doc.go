// Package guarddb opens the guard that a DSN names, of PostgreSQL, SQLite, a bucket of S3 or
// an HTTP service, for "pawl guard" and "pawl run": to read a resource's mark and to raise it.
//
// It promises that no password of a DSN is in an error, and finds the exit code of
// each: of the guard's refusals, of the driver's errors, of a database that cannot be
// reached. It never makes a database or a guard that is not there, but for a pointer in a
// bucket, which the first claim makes.
//
// A claim means what guard/pgguard, guard/sqlguard, guard/objguard and guard/httpguard say;
// nothing is added here.
package guarddb
