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
func SQLite() Dialect {
	return Dialect{
		ddl: []string{
			`CREATE TABLE IF NOT EXISTS pawl_guard (
	resource TEXT NOT NULL PRIMARY KEY,
	cell     TEXT NOT NULL CHECK (cell <> ''),
	token    INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991)
) WITHOUT ROWID`,
			`CREATE TABLE IF NOT EXISTS pawl_guard_offset (
	resource TEXT NOT NULL,
	key      TEXT NOT NULL,
	seq      INTEGER NOT NULL CHECK (typeof(seq) = 'integer' AND seq >= 0),
	PRIMARY KEY (resource, key)
) WITHOUT ROWID`,
			`CREATE TRIGGER IF NOT EXISTS pawl_guard_ratchet BEFORE UPDATE ON pawl_guard
WHEN NEW.token < OLD.token OR NEW.cell <> OLD.cell OR NEW.resource <> OLD.resource
BEGIN SELECT RAISE(ABORT, 'pawl_guard: a mark never goes back'); END`,
			`CREATE TRIGGER IF NOT EXISTS pawl_guard_keep BEFORE DELETE ON pawl_guard
BEGIN SELECT RAISE(ABORT, 'pawl_guard: a mark is never deleted'); END`,
			// REPLACE deletes what is in the way without a trigger. An upsert comes by
			// here too, so that it must be told no row, and no error.
			`CREATE TRIGGER IF NOT EXISTS pawl_guard_replace BEFORE INSERT ON pawl_guard
WHEN EXISTS (SELECT 1 FROM pawl_guard g
	WHERE g.resource = NEW.resource AND (g.token > NEW.token OR g.cell <> NEW.cell))
BEGIN SELECT RAISE(IGNORE); END`,
		},
		enter: `INSERT INTO pawl_guard (resource, cell, token) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token
WHERE pawl_guard.cell = excluded.cell AND pawl_guard.token <= excluded.token
RETURNING token`,
		seen: `SELECT cell, token FROM pawl_guard WHERE resource = ?`,
		step: `UPDATE pawl_guard_offset SET seq = ? WHERE resource = ? AND key = ? AND seq = ? RETURNING seq`,
		start: `INSERT INTO pawl_guard_offset (resource, key, seq) VALUES (?, ?, ?)
ON CONFLICT (resource, key) DO NOTHING RETURNING seq`,
		offset:  `SELECT seq FROM pawl_guard_offset WHERE resource = ? AND key = ?`,
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
	case strings.Contains(msg, "no such table: pawl_guard"):
		return failedNoTable
	case strings.Contains(msg, "database is locked"), strings.Contains(msg, "database table is locked"):
		return failedBusy
	case strings.Contains(msg, "constraint failed"):
		return failedCheck
	}
	return failedOtherwise
}
