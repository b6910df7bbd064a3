package pgdsn

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrDSN: PostgreSQL is not named by what was given. The driver's own words are
// not passed on: they may hold a password.
var ErrDSN = errors.New(`expected postgres://USER@HOST:PORT/DATABASE or "host=HOST dbname=DATABASE"`)

// Database is one that a DSN names.
type Database struct {
	Config *pgxpool.Config
	// secrets must not be printed, also not inside another package's message.
	secrets []string
}

// Parse reads a DSN; the only error is [ErrDSN]. It connects to nothing.
func Parse(dsn string) (Database, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return Database{}, ErrDSN
	}
	return Database{config, secretsOf(config.ConnConfig.Password)}, nil
}

// secretsOf are the forms in which a password may show.
func secretsOf(password string) []string {
	if password == "" {
		return nil
	}
	return []string{password, url.QueryEscape(password), url.PathEscape(password), url.UserPassword("", password).String()[1:]}
}

// Text is what may be printed of an error that was met on the database.
func (d Database) Text(err error) string {
	text := err.Error()
	for _, s := range d.secrets {
		text = strings.ReplaceAll(text, s, "xxxxx")
	}
	return oneLine(text)
}

// Error returns err with [Database.Text] as its text.
func (d Database) Error(err error) error {
	if err == nil {
		return nil
	}
	return redactedError{err, d.Text(err)}
}

type redactedError struct {
	error
	text string
}

func (t redactedError) Error() string { return t.text }
func (t redactedError) Unwrap() error { return t.error }

// OneLine is the text of an error without what was said before in it: the driver
// has a line for each way in which it tried to connect.
func OneLine(err error) string { return oneLine(err.Error()) }

func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
