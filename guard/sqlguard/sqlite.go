package sqlguard

import (
	"errors"
	"strings"
)

// SQLite returns the dialect of SQLite 3.35 or newer, for any driver.
//
// One statement decides. It is an upsert and not an UPDATE whose changed rows
// are counted: that count cannot tell a lower token from a missing row, nor in
// every database a change from a repetition of the same value.
//
// Every name has its schema, since a TEMP table of the same name would be found
// first. Inside a trigger of main a name means main's.
//
// REPLACE deletes the row in its way and fires no trigger for that, unless
// recursive_triggers is on, which it is not by default. Nor can a trigger tell
// REPLACE from an upsert before the row is in, and an upsert that would lower the
// mark must return no row, not an error. So, in steps:
//
//  1. Before a row is inserted, pawl_guard_was gets the mark that is there, where
//     the new one would be lower or another cell's.
//  2. An upsert finds the row, and its WHERE leaves it alone. A plain INSERT fails.
//     REPLACE deletes the row and inserts its own.
//  3. After a row was inserted, one in pawl_guard_was says that it took the place
//     of a higher mark: the statement is undone.
func SQLite() Dialect {
	return Dialect{
		ddl: []string{
			`CREATE TABLE IF NOT EXISTS main.pawl_guard (
	resource TEXT NOT NULL PRIMARY KEY,
	cell     TEXT NOT NULL CHECK (cell <> ''),
	token    INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991)
) WITHOUT ROWID`,
			`CREATE TABLE IF NOT EXISTS main.pawl_guard_offset (
	resource TEXT NOT NULL,
	key      TEXT NOT NULL,
	seq      INTEGER NOT NULL CHECK (typeof(seq) = 'integer' AND seq >= 0),
	PRIMARY KEY (resource, key)
) WITHOUT ROWID`,
			`CREATE TABLE IF NOT EXISTS main.pawl_guard_was (
	resource TEXT NOT NULL PRIMARY KEY,
	cell     TEXT NOT NULL,
	token    INTEGER NOT NULL
) WITHOUT ROWID`,
			`CREATE TRIGGER IF NOT EXISTS main.pawl_guard_ratchet BEFORE UPDATE ON pawl_guard
WHEN NEW.token < OLD.token OR NEW.cell <> OLD.cell OR NEW.resource <> OLD.resource
BEGIN SELECT RAISE(ABORT, 'pawl_guard: a mark never goes back'); END`,
			`CREATE TRIGGER IF NOT EXISTS main.pawl_guard_keep BEFORE DELETE ON pawl_guard
BEGIN SELECT RAISE(ABORT, 'pawl_guard: a mark is never deleted'); END`,
			`CREATE TRIGGER IF NOT EXISTS main.pawl_guard_before BEFORE INSERT ON pawl_guard
BEGIN
	DELETE FROM pawl_guard_was WHERE resource = NEW.resource;
	INSERT INTO pawl_guard_was (resource, cell, token) SELECT g.resource, g.cell, g.token FROM pawl_guard g
		WHERE g.resource = NEW.resource AND (g.cell <> NEW.cell OR g.token > NEW.token);
END`,
			`CREATE TRIGGER IF NOT EXISTS main.pawl_guard_replaced AFTER INSERT ON pawl_guard
WHEN EXISTS (SELECT 1 FROM pawl_guard_was w WHERE w.resource = NEW.resource)
BEGIN SELECT RAISE(ABORT, 'pawl_guard: a mark never goes back, and is not replaced'); END`,
		},
		enter: `INSERT INTO main.pawl_guard AS g (resource, cell, token) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token
WHERE g.cell = excluded.cell AND g.token <= excluded.token
RETURNING token`,
		seen: `SELECT cell, token FROM main.pawl_guard WHERE resource = ?`,
		step: `UPDATE main.pawl_guard_offset SET seq = ? WHERE resource = ? AND key = ? AND seq = ? RETURNING seq`,
		start: `INSERT INTO main.pawl_guard_offset (resource, key, seq) VALUES (?, ?, ?)
ON CONFLICT (resource, key) DO NOTHING RETURNING seq`,
		offset:  `SELECT seq FROM main.pawl_guard_offset WHERE resource = ? AND key = ?`,
		failure: sqliteFailure,
	}
}

// Primary result codes of SQLite.
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteConstraint = 19
)

// sqliteFailure asks for the result code where the driver has it in the usual
// form, and goes by SQLite's own fixed texts for the drivers that do not.
func sqliteFailure(err error) failure {
	if c, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		switch c.Code() & 0xff {
		case sqliteBusy, sqliteLocked:
			return failedBusy
		case sqliteConstraint:
			return failedCheck
		}
	}
	msg := err.Error()
	switch {
	case strings.Contains(msg, "no such table: main.pawl_guard"), strings.Contains(msg, "no such table: pawl_guard"):
		return failedNoTable
	case strings.Contains(msg, "database is locked"), strings.Contains(msg, "database table is locked"):
		return failedBusy
	case strings.Contains(msg, "constraint failed"):
		return failedCheck
	}
	return failedOtherwise
}
