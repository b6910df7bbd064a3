// Package pgdsn is about databases of PostgreSQL that a user names to a command,
// and about what may be printed of the driver's errors.
//
// It promises that no text which it makes holds the password of the DSN, as it is
// or as Go escapes it for a URL, and that each is one line.
//
// It does not promise anything about a password that the driver found elsewhere
// (PGPASSWORD, ~/.pgpass), but that it is treated likewise once the driver has
// read it.
package pgdsn
