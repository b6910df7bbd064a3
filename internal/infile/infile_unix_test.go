//go:build unix

package infile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/internal/clock"
)

// Whatever stands at the path, reading comes back: a reload that hangs would leave
// in force what was taken from somebody.
func TestReadEndsOnAnyFile(t *testing.T) {
	dir, now := t.TempDir(), clock.System().Wall()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"unwritten", "silent"} {
		if err := syscall.Mkfifo(at(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	silent, err := os.OpenFile(at("silent"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := os.WriteFile(at("file"), []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	if raw, st, err := Read(at("file"), 5, now); err != nil || string(raw) != "12345" || st.Mode().Perm() != 0o640 {
		t.Errorf("%q, %v, %v", raw, st, err)
	}
	if raw, _, err := Read(at("unwritten"), 5, now); err == nil || !strings.Contains(err.Error(), "nobody has written") {
		t.Errorf("a pipe that nobody writes to: %q, %v", raw, err)
	}
	for path, said := range map[string]string{
		at("silent"): "did not end", at("file"): "more than 4", dir: "neither a file", "/dev/zero": "neither a file", at("none"): "no such file",
	} {
		if _, _, err := Read(path, 4, now.Add(-arriveMax)); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v; %q was expected", path, err, said)
		}
	}
}
