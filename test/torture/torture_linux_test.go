package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		main()
	}
	os.Exit(func() int {
		var err error
		if folder, err = os.MkdirTemp("", "pawl-torture-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		return m.Run()
	}())
}

var folder string

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "pawl")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/pawlproject/pawl/cmd/pawl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build pawl: %w\n%s", err, out)
	}
	return path, nil
})

func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("tortures real servers; make test does")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tortured returns what a run printed.
func tortured(t *testing.T, s settings) (string, error) {
	t.Helper()
	var err error
	if s, err = parse(s.args()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	err = outside(t.Context(), s, &out)
	return out.String(), err
}

func TestTorture(t *testing.T) {
	out, err := tortured(t, settings{store: storeQuorum, duration: 2 * time.Minute, pawl: program(t)})
	t.Log("\n" + out)
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(out, "\noverlaps: 0 stale writes accepted: 0 lost: 0 unavailable max: ") {
		t.Error("the last line is another")
	}
}

// When torture is killed, all that it started ends with it.
func TestTortureLeavesNothingWhenKilled(t *testing.T) {
	s, err := parse(settings{store: storeQuorum, duration: time.Minute, pawl: program(t)}.args())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command("/proc/self/exe", s.args()...)
	cmd.Env = append(os.Environ(), roleEnv+"=outside", "TMPDIR="+home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "store: quorum") {
		t.Errorf("it began with %q, %v", line, err)
	}
	if with(t, home) < 6 {
		t.Error("it has not started what it should")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	testwait.Until(t, time.Minute, "nothing of it is left", func() bool { return with(t, home) == 0 })
}

// with counts the processes that have a text in their arguments.
func with(t *testing.T, text string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if args, err := os.ReadFile(f); err == nil && bytes.Contains(args, []byte(text)) {
			n++
		}
	}
	return n
}

// Three servers that know nothing of each other are no cell: that is found.
func TestTortureFindsServersThatAreNoCell(t *testing.T) {
	script := filepath.Join(t.TempDir(), "pawl")
	text := `#!/bin/sh
address=
for word; do
	if [ "$before" = --advertise ]; then address=$word; fi
	before=$word
done
case $1 in
serve) exec ` + program(t) + ` serve --insecure --store memory --cell-id default-0123456789abcdef --listen 0.0.0.0:7420 --http 0.0.0.0:7421 --advertise "$address" ;;
esac
exec ` + program(t) + ` "$@"
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := tortured(t, settings{store: storeQuorum, duration: durationMin, seed: 1, pawl: script})
	if err == nil || strings.Contains(out, "overlaps: 0 ") {
		t.Errorf("%v; nothing was found:\n%s", err, out)
	}
}
