package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

type mark struct {
	Resource     string
	FencingToken string `json:"fencing_token"`
	Cell         string
}

// ledgerFile is a SQLite database without a guard.
func ledgerFile(t *testing.T) (path string, db *sql.DB) {
	t.Helper()
	// A name that a data source name would take for its own.
	path = filepath.Join(t.TempDir(), "a b?c=d#e%.db")
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE other (x)"); err != nil {
		t.Fatal(err)
	}
	return path, db
}

// The printed migration makes a guard that the commands and sqlguard share.
func TestGuardOnSQLite(t *testing.T) {
	path, db := ledgerFile(t)
	dsn := "sqlite:" + path
	contains(t, want(t, exit.CodeData, "guard", "seen", "ledger", "--dsn", dsn).stderr, "no guard", "pawl guard ddl --dialect sqlite")
	contains(t, want(t, exit.CodeData, "guard", "claim", "ledger", "--token", "1", "--cell", "c", "--dsn", dsn).stderr, "no guard")

	ddl := want(t, 0, "guard", "ddl", "--dialect", "sqlite").stdout
	for range 2 {
		if _, err := db.ExecContext(t.Context(), ddl); err != nil {
			t.Fatalf("%v in\n%s", err, ddl)
		}
	}
	contains(t, want(t, 0, "guard", "seen", "ledger", "--dsn", dsn).stdout, "has seen no token yet")
	if m := read[mark](t, want(t, 0, "guard", "seen", "ledger", "--json", "--dsn", dsn).stdout); m != (mark{Resource: "ledger"}) {
		t.Errorf("an unseen resource is %+v", m)
	}
	claimed := mark{"ledger", "7", "c"}
	if m := read[mark](t, want(t, 0, "guard", "claim", "ledger", "--token", "7", "--cell", "c", "--json", "--dsn", dsn).stdout); m != claimed {
		t.Errorf("claimed %+v", m)
	}
	contains(t, want(t, exit.CodeLost, "guard", "claim", "ledger", "--token", "6", "--cell", "c", "--dsn", dsn).stderr, "stale", "6", "seen 7")
	contains(t, want(t, exit.CodeOther, "guard", "claim", "ledger", "--token", "8", "--cell", "d", "--dsn", dsn).stderr, "another cell")
	if m := read[mark](t, want(t, 0, "guard", "seen", "ledger", "--json", "--dsn", dsn).stdout); m != claimed {
		t.Errorf("seen %+v", m)
	}
	contains(t, want(t, 0, "guard", "seen", "ledger", "--dsn", dsn).stdout, "SEEN", "7")

	f := guard.Fence{Resource: "ledger", Token: 9, Cell: "c"}
	err := sqlguard.New(db, sqlguard.SQLite()).InTx(t.Context(), f, func(tx *sql.Tx) error {
		started := time.Now()
		contains(t, want(t, exit.CodeNotAcquired, "guard", "claim", "ledger", "--token", "10", "--cell", "c", "--wait", "50ms", "--dsn", dsn).stderr, "busy, nothing was done")
		if took := time.Since(started); took > bound {
			t.Errorf("it waited %v", took)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, 0, "guard", "claim", "ledger", "--token", "10", "--cell", "c", "--dsn", dsn)
}

// Under "pawl run" the fence is the lease's, and the variable and the file name
// the database as well as the flag does.
func TestGuardClaimUnderRun(t *testing.T) {
	path, db := ledgerFile(t)
	if err := sqlguard.New(db, sqlguard.SQLite()).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--store", "memory")
	cmd := s.command("run", "nightly", "--", os.Args[0], "guard", "claim", "nightly", "--json")
	cmd.Env = append(cmd.Env, "PAWL_DSN=sqlite:"+path)
	r := finish(t, cmd)
	if r.code != 0 {
		t.Fatalf("it ended with %+v", r)
	}
	claimed := read[mark](t, r.stdout)
	file := writeFile(t, "dsn", "sqlite:"+path+"\n")
	seen := read[mark](t, want(t, 0, "guard", "seen", "nightly", "--json", "--dsn-file", file).stdout)
	if claimed != seen || seen.FencingToken == "" || !strings.Contains(seen.Cell, "-") {
		t.Errorf("claimed %+v, seen %+v", claimed, seen)
	}
	// The next lease of the name has a higher token; the old one is refused.
	next := s.acquire("nightly")
	want(t, 0, "guard", "claim", "nightly", "--token", next.Fence, "--cell", next.Cell, "--dsn-file", file)
	want(t, exit.CodeLost, "guard", "claim", "nightly", "--token", claimed.FencingToken, "--cell", next.Cell, "--dsn-file", file)
}

func TestGuardRefusesInvalidFlags(t *testing.T) {
	path, _ := ledgerFile(t)
	dsn := "sqlite:" + path
	for _, args := range [][]string{
		{"seen"},
		{"seen", "r"},
		{"seen", "r", "--dsn", dsn, "--dsn-file", path},
		{"seen", "r", "--dsn-file", filepath.Join(t.TempDir(), "none")},
		{"seen", "r", "--dsn-file", writeFile(t, "empty", " \n")},
		{"claim", "r", "--dsn", dsn, "--cell", "c"},
		{"claim", "r", "--dsn", dsn, "--token", "1"},
		{"claim", "r", "--dsn", dsn, "--cell", "c", "--token", "0"},
		{"claim", "r", "--dsn", dsn, "--cell", "c", "--token", "9007199254740992"},
		{"claim", "r", "--dsn", dsn, "--cell", "c", "--token", "x"},
		{"claim", "", "--dsn", dsn, "--cell", "c", "--token", "1"},
		{"claim", "r", "--dsn", dsn, "--cell", "c", "--token", "1", "--wait", "-1s"},
		{"ddl"},
		{"ddl", "--dialect", "oracle"},
		{"ddl", "--dialect", "sqlite", "--enforce", "t=r"},
		{"ddl", "--dialect", "postgres", "--enforce", "t"},
		{"ddl", "--dialect", "postgres", "--enforce", "=r"},
		{"ddl", "--dialect", "postgres", "--enforce-rows", "t="},
		{"ddl", "--dialect", "postgres", "--enforce-rows", "t=:p"},
		{"ddl", "--dialect", "postgres", "--grant", ""},
		{"ddl", "--dialect", "s3"},
		{"ddl", "--dialect", "s3", "--bucket", "b"},
		{"ddl", "--dialect", "s3", "--bucket", "s3://b", "--grant", "r"},
		{"ddl", "--dialect", "sqlite", "--bucket", "s3://b"},
		{"probe"},
		{"probe", "b"},
		{"probe", "s3://user@b/p"},
		{"probe", "s3://b/p?endpoints=x"},
		{"probe", "s3://b/p", "--endpoint", "127.0.0.1:1"},
		{"probe", "s3://b/p", "--need", "luck"},
		{"mend"},
	} {
		want(t, exit.CodeUsage, append([]string{"guard"}, args...)...)
	}
	contains(t, want(t, exit.CodeUsage, "guard", "ddl", "--dialect", "s3").stderr, "--dialect s3 needs --bucket s3://BUCKET/PREFIX")
	contains(t, want(t, exit.CodeUsage, "guard", "seen", "r").stderr, "no guard is named", "s3://BUCKET/PREFIX, or http://HOST:PORT")
	want(t, exit.CodeUnavailable, "guard", "seen", "r", "--dsn", "sqlite:"+t.TempDir())
	want(t, exit.CodeUnavailable, "guard", "seen", "r", "--dsn", "sqlite:"+path+".none")
	want(t, exit.CodeData, "guard", "seen", "r", "--dsn", "sqlite:"+writeFile(t, "text", strings.Repeat("no database ", 100)))
	if _, err := os.Stat(path + ".none"); err == nil {
		t.Error("a database was made by looking for one")
	}
}

// A password stands in no message, whether the DSN can be read or not, and
// wherever it came from.
func TestGuardErrorsOmitPassword(t *testing.T) {
	const password = "hush-hush"
	nobody := closedPort(t)
	host, port, _ := strings.Cut(nobody, ":")
	for dsn, code := range map[string]int{
		"postgres://app:" + password + "@" + nobody + "/shop":                             exit.CodeUnavailable,
		"postgres://app:" + password + "@" + nobody + "/shop?connect_timeout=" + password: exit.CodeUsage,
		"postgres://app:" + password + "%zz@" + nobody + "/shop":                          exit.CodeUsage,
		"postgres://app:" + password + "/" + password + "@" + nobody + "/shop":            exit.CodeUsage,
		"host=" + host + " port=" + port + " user=app password=" + password:               exit.CodeUnavailable,
		"host=" + host + " port=x" + password + " user=app password=" + password:          exit.CodeUsage,
		"host=" + host + " port=" + port + " password='" + password:                       exit.CodeUsage,
		"mysql://app:" + password + "@" + nobody + "/shop":                                exit.CodeUsage,
		password: exit.CodeUsage,
		"postgres://app:" + password + "@" + nobody + "/" + password + "?application_name=" + password: exit.CodeUnavailable,
	} {
		for name, r := range map[string]result{
			"flag": pawlCLI(t, "guard", "seen", "r", "--dsn", dsn),
			"file": pawlCLI(t, "guard", "claim", "r", "--token", "1", "--cell", "c", "--dsn-file", writeFile(t, "dsn", dsn)),
			"variable": func() result {
				cmd := command(t, "guard", "seen", "r")
				cmd.Env = append(cmd.Env, "PAWL_DSN="+dsn)
				return finish(t, cmd)
			}(),
		} {
			if r.code != code || strings.Contains(r.stdout+r.stderr, password) || r.stderr == "" || strings.Count(r.stderr, "\n") > 2 {
				t.Errorf("%s by %s: %+v", dsn, name, r)
			}
		}
	}
	// In the wrong place it is quoted, without the password.
	for _, dsn := range []string{"postgres://app:" + password + "@" + nobody + "/shop", "host=x password='" + password + " ' dbname=y"} {
		for _, args := range [][]string{
			{dsn},
			{"guard", dsn},
			{"guard", "seen", "r", dsn},
			{"guard", "seen", "r", "--dsn-file", dsn},
			{"guard", "ddl", "--dialect", dsn},
			{"guard", "claim", "r", "--token", dsn, "--cell", "c"},
			{"demo", "zombie", dsn},
			{"ls", "--servers", dsn},
		} {
			if r := pawlCLI(t, args...); r.code == 0 || strings.Contains(r.stdout+r.stderr, password) || !strings.Contains(r.stderr, "xxxxx") {
				t.Errorf("%q: %+v", args, r)
			}
		}
	}
	for _, dsn := range []string{"", "postgres://app:" + password + "%zz@" + nobody, "host=/none user=app password=" + password} {
		if r := pawlCLI(t, "demo", "zombie", "--postgres", dsn); r.code == 0 || strings.Contains(r.stderr, password) {
			t.Errorf("demo on %s: %+v", dsn, r)
		}
	}
}

func TestSQLText(t *testing.T) {
	for s, sql := range map[string]string{
		"orders":       `'orders'`,
		`app."Orders"`: `'app."Orders"'`,
		"it's":         `'it''s'`,
		`a\b'`:         `E'a\\b'''`,
		"gpu\x1f3":     `E'gpu\u001f3'`,
		"日本":           `'日本'`,
	} {
		if got := sqlText(s); got != sql {
			t.Errorf("%q is %s, expected %s", s, got, sql)
		}
	}
}
