package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// left is the folder of a server that was stopped, with a log of several segments
// where many is set.
func left(t *testing.T, many bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, EmbeddedOptions{Dir: dir})
	l := mustBegin(t, s, 1)
	mustAppend(t, l, 20)
	for n := 0; many && n < 120; n++ {
		if err := l.land(t.Context(), 200_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// segment is the name of a segment of the log in dir; the last one is -1.
func segment(t *testing.T, dir string, n int) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "etcd/member/wal/*.wal"))
	if err != nil || len(names) == 0 {
		t.Fatalf("etcd's log is %v, %v", names, err)
	}
	if n < 0 {
		n += len(names)
	}
	return names[n]
}

// damages are ways in which a folder is damaged: what is done, what the error names
// beside the folder, and says.
var damages = map[string]struct {
	many   bool
	damage func(t *testing.T, dir string) error
	says   []string
}{
	"an empty segment": {
		damage: func(t *testing.T, dir string) error { return os.Truncate(segment(t, dir, 0), 0) },
		says:   []string{".wal is empty"},
	},
	"a segment of 7 bytes": {
		damage: func(t *testing.T, dir string) error { return os.Truncate(segment(t, dir, 0), 7) },
		says:   []string{".wal is cut short"},
	},
	"a segment of 8 bytes": {
		damage: func(t *testing.T, dir string) error { return os.Truncate(segment(t, dir, 0), 8) },
		says:   []string{"member/wal"},
	},
	"a segment of zeros": {damage: func(t *testing.T, dir string) error {
		return os.WriteFile(segment(t, dir, 0), make([]byte, 1<<20), 0o600)
	}, says: []string{".wal begins with zeros"}},
	"no log": {
		damage: func(_ *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, "etcd/member/wal")) },
		says:   []string{"member/wal is missing"},
	},
	"no segment": {
		damage: func(t *testing.T, dir string) error { return os.Remove(segment(t, dir, 0)) },
		says:   []string{"member/wal holds no segment"},
	},
	"a folder for a segment": {damage: func(t *testing.T, dir string) error {
		name := segment(t, dir, 0)
		return errors.Join(os.Remove(name), os.Mkdir(name, 0o700))
	}, says: []string{".wal is not a file"}},
	"the first segment missing": {
		many: true, damage: func(t *testing.T, dir string) error { return os.Remove(segment(t, dir, 0)) },
		says: []string{"/etcd"},
	},
	"a segment missing in between": {
		many: true, damage: func(t *testing.T, dir string) error { return os.Remove(segment(t, dir, 1)) },
		says: []string{"lacks the segment with the number 0000000000000001"},
	},
	"a segment in between cut short": {
		many: true, damage: func(t *testing.T, dir string) error { return os.Truncate(segment(t, dir, 1), 1<<20) },
		says: []string{"/etcd"},
	},
	"no snap": {
		damage: func(_ *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, "etcd/member/snap")) },
		says:   []string{"member/snap is missing"},
	},
	"a file for snap": {damage: func(_ *testing.T, dir string) error {
		name := filepath.Join(dir, "etcd/member/snap")
		return errors.Join(os.RemoveAll(name), os.WriteFile(name, nil, 0o600))
	}, says: []string{"member/snap is not a folder"}},
	"no database": {damage: func(_ *testing.T, dir string) error { return os.Remove(database(dir)) }, says: []string{"snap/db is missing"}},
	"an empty database": {
		damage: func(_ *testing.T, dir string) error { return os.Truncate(database(dir), 0) },
		says:   []string{"snap/db is empty"},
	},
	"a database cut short": {
		damage: func(_ *testing.T, dir string) error { return os.Truncate(database(dir), 9000) },
		says:   []string{"snap/db is cut short: 9000 bytes"},
	},
	"a database of 100 bytes": {
		damage: func(_ *testing.T, dir string) error { return os.Truncate(database(dir), 100) },
		says:   []string{"snap/db is cut short: 100 bytes"},
	},
	"a database that is none": {damage: func(_ *testing.T, dir string) error {
		return os.WriteFile(database(dir), []byte(strings.Repeat("no database ", 10000)), 0o600)
	}, says: []string{"snap/db is no database"}},
	"a folder for the database": {damage: func(_ *testing.T, dir string) error {
		return errors.Join(os.Remove(database(dir)), os.Mkdir(database(dir), 0o700))
	}, says: []string{"snap/db is not a file"}},
	"a file for the member": {damage: func(_ *testing.T, dir string) error {
		name := filepath.Join(dir, "etcd")
		return errors.Join(os.RemoveAll(name), os.WriteFile(name, nil, 0o600))
	}, says: []string{"/etcd is not a folder"}},
	"an empty node": {
		damage: func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "node"), 0) },
		says:   []string{"/node does not hold an id", "remove it"},
	},
	"a folder for node": {damage: func(_ *testing.T, dir string) error {
		return errors.Join(os.Remove(filepath.Join(dir, "node")), os.Mkdir(filepath.Join(dir, "node"), 0o700))
	}, says: []string{"/node is not a file", "remove it"}},
	"an empty seen": {
		damage: func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "seen"), 0) },
		says:   []string{"/seen does not hold", "remove it"},
	},
	"a folder for seen": {damage: func(_ *testing.T, dir string) error {
		return errors.Join(os.Remove(filepath.Join(dir, "seen")), os.Mkdir(filepath.Join(dir, "seen"), 0o700))
	}, says: []string{"/seen is not a file", "remove it"}},
	"a folder for lock": {damage: func(_ *testing.T, dir string) error {
		return errors.Join(os.Remove(filepath.Join(dir, "lock")), os.Mkdir(filepath.Join(dir, "lock"), 0o700))
	}, says: []string{"/lock is not a file", "remove it"}},
}

func database(dir string) string { return filepath.Join(dir, "etcd/member/snap/db") }

// partStart opens the folder in its argument and closes it again; it is a process of
// its own, since etcd may end the one it is in.
const partStart = "start"

func init() {
	parts[partStart] = func(dir string) error {
		s, err := OpenEmbedded(context.Background(), EmbeddedOptions{Dir: dir, Clock: clock.System()})
		switch {
		case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrRolledBack):
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitDamaged)
		case err != nil:
			return err
		}
		return s.Close()
	}
}

// wantDamaged starts on a folder that is damaged.
func wantDamaged(t *testing.T, dir string, says ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var out bytes.Buffer
	cmd := child(partStart, dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err := cmd.Wait()
	said := out.String()
	if cmd.ProcessState.ExitCode() != exitDamaged || strings.Contains(said, "goroutine ") {
		t.Errorf("a start ended with %v, expected %d:\n%s", err, exitDamaged, said)
	}
	for _, word := range says {
		if !strings.Contains(said, word) {
			t.Errorf("it does not say %q: %s", word, said)
		}
	}
	if !strings.Contains(said, "remove ") && !strings.Contains(said, mendFolder) {
		t.Errorf("it does not say what to do: %s", said)
	}
}

// Each way of damage ends a start with the code of damage, the name of what is damaged,
// and what to do; and so it does the next one.
func TestDamagedFolder(t *testing.T) {
	wholes := map[bool]string{false: left(t, false), true: left(t, true)}
	for what, tc := range damages {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(wholes[tc.many])); err != nil {
				t.Fatal(err)
			}
			if err := tc.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				wantDamaged(t, dir, append(tc.says, dir)...)
			}
		})
	}
}

// Wherever the log of a server that was stopped is cut off, or ends in zeros instead of
// what was there, the start is one of damage, or of a store that shows less than it had
// reached.
func TestLogCutShort(t *testing.T) {
	whole := left(t, false)
	raw, err := os.ReadFile(segment(t, whole, 0))
	if err != nil {
		t.Fatal(err)
	}
	ends := len(bytes.TrimRight(raw, "\x00"))
	for _, zeros := range []bool{false, true} {
		for _, at := range []int{9, 16, 20, 24, 40, 100, 200, 400, 1000, ends / 2, ends - 100, ends - 9} {
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			cut := slices.Clone(raw[:at])
			if zeros {
				cut = append(cut, make([]byte, len(raw)-at)...)
			}
			if err := os.WriteFile(segment(t, dir, 0), cut, 0o600); err != nil {
				t.Fatal(err)
			}
			if !zeros && at == ends-9 {
				// The last record says how far entries were committed, and all of them are there.
				if l := mustBegin(t, open(t, EmbeddedOptions{Dir: dir}), 2); l.replayed != 21 {
					t.Errorf("replayed up to %d, want 21", l.replayed)
				}
				continue
			}
			wantDamaged(t, dir, dir)
		}
	}
}

// What lies beside, and what etcd leaves there by itself, ends no start.
func TestExtraFilesAreNoDamage(t *testing.T) {
	dir := left(t, true)
	for _, name := range []string{
		"notes.txt", "etcd/notes.txt", "etcd/member/notes.txt", "etcd/member/wal/notes.wal", "etcd/member/wal/0.tmp", "etcd/member/wal/x.broken",
		"etcd/member/snap/notes.txt", "etcd/member/snap/0000000000000001-0000000000000001.snap.broken", "node.12", "seen.34",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, EmbeddedOptions{Dir: dir})
	if l := mustBegin(t, s, 2); l.replayed != 141 {
		t.Errorf("replayed up to %d, want 141", l.replayed)
	}
}

// A folder that may not be read is no damage: the error names the file and the system's
// refusal.
func TestUnreadableFolderIsNoDamage(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	for _, what := range []func(dir string) string{
		database, func(dir string) string { return segment(t, dir, 0) }, func(dir string) string { return filepath.Join(dir, "etcd/member/wal") },
	} {
		dir := left(t, false)
		name := what(dir)
		if err := os.Chmod(name, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(name, 0o700) })
		_, err := OpenEmbedded(t.Context(), EmbeddedOptions{Dir: dir, Clock: clock.System(), Stderr: io.Discard})
		if e, ok := errors.AsType[*fs.PathError](err); !ok || e.Path != name || errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s may not be read: %v", name, err)
		}
	}
}

// A folder that others may write to is warned about and served.
func TestFolderOpenToOthers(t *testing.T) {
	for mode, warns := range map[fs.FileMode]bool{0o777: true, 0o770: true, 0o702: true, 0o755: false, 0o700: false} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		f := &folder{dir: dir}
		f.warnOpen(slog.New(slog.NewTextHandler(&said, nil)))
		if got := strings.Contains(said.String(), "others than its owner may change it"); got != warns {
			t.Errorf("mode %o: it says %q", mode, said.String())
		}
	}
}
