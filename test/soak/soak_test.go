package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// killsFew is how many kills a plain test run has.
const killsFew = 5

func TestKills(t *testing.T) {
	kills := max(killsFew, testwait.Reps(200))
	out, err := killed(t, program(t), 1, kills)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := fmt.Sprintf("\nkills: %d lost: 0 repeated tokens: 0 revived: 0\n", kills)
	if !strings.HasSuffix(out, want) {
		t.Errorf("the output is %q; it was to end with %q", out, want)
	}
}

// killsAmong is how many kills of one of three servers a plain test run has.
const killsAmong = 20

// One of three servers is killed or stopped, again and again, the active one as well:
// nothing is lost, and the others go on. The bounds are those that the pace of
// elections and of signs of life gives, with room for a busy machine.
func TestKillsAmongThree(t *testing.T) {
	out, err := killed(t, program(t), 3, killsAmong)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "to the next grant") {
			t.Log(line)
		}
	}
	if want := fmt.Sprintf("\nkills: %d lost: 0 repeated tokens: 0 revived: 0\n", killsAmong); !strings.HasSuffix(out, want) {
		t.Errorf("the output is %q; it was to end with %q", out, want)
	}
}

// growthTTL is the active-ttl of TestGrowth: a server that starts again takes part when
// that has passed.
const growthTTL = time.Second

// A cell of one server grows to three under load, and each is restarted in turn: no
// write of a guarded counter and no lease is lost.
func TestGrowth(t *testing.T) {
	binary := program(t)
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	err := grow(t.Context(), binary, 1, growthTTL, &out)
	goleak.VerifyNone(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	const want = "\ngrowth: 1 runs lost: 0 leases lost: 0 repeated tokens: 0 revived: 0; "
	if !strings.Contains(out.String(), want) {
		t.Errorf("the output is %q; it was to have %q", &out, want)
	}
	t.Log(out.String())
}

// A counter counts the writes that others wrote over, and its guard refuses the late.
func TestCounterFindsLostWrites(t *testing.T) {
	c := &counter{name: "c"}
	fence := func(token guard.Token) guard.Fence { return guard.Fence{Token: token, Cell: "cell", Resource: "c"} }
	if err := errors.Join(c.write(fence(1), c.read()+1), c.Claim(t.Context(), fence(2))); err != nil {
		t.Fatal(err)
	}
	if err := c.write(fence(1), c.read()+1); !errors.Is(err, guard.ErrStale) || c.refused != 1 || c.lost() != 0 {
		t.Errorf("a late write: %v, %d refused, %d lost", err, c.refused, c.lost())
	}
	read := c.read()
	if err := errors.Join(c.write(fence(2), read+1), c.write(fence(2), read+1)); err != nil {
		t.Fatal(err)
	}
	if n := c.lost(); n != 1 {
		t.Errorf("one write was written over, and %d are said to be lost", n)
	}
}

// A server that does not keep what it acknowledged is found out.
func TestSoakFindsForgetfulServer(t *testing.T) {
	for _, test := range []struct{ name, script string }{
		{"all is forgotten at every start", `exec "$PAWL" "$@" --store memory`},
		{"the folder is put back to what it was", `
			if [ -d "$DATA.before" ]; then rm -rf "$DATA"; cp -r "$DATA.before" "$DATA"
			elif [ -d "$DATA" ]; then cp -r "$DATA" "$DATA.before"
			fi
			exec "$PAWL" "$@" --data "$DATA"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PAWL", program(t))
			t.Setenv("DATA", filepath.Join(t.TempDir(), "data"))
			script := filepath.Join(t.TempDir(), "serve")
			if err := os.WriteFile(script, []byte("#!/bin/sh\n"+test.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			out, err := killed(t, script, 1, killsFew)
			if err == nil || strings.Contains(out, "lost: 0 ") {
				t.Errorf("%v; the losses were not found:\n%s", err, out)
			}
		})
	}
}

// killed runs the soak on a program and returns what it printed.
func killed(t *testing.T, binary string, servers, kills int) (string, error) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	err := kill(t.Context(), binary, servers, kills, &out)
	goleak.VerifyNone(t)
	return out.String(), err
}

// program builds pawl, once.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("kills a real server; make test does")
	}
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

var folder string

var built = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(folder, "pawl")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/pawlproject/pawl/cmd/pawl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if folder, err = os.MkdirTemp("", "pawl-soak-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		return m.Run()
	}())
}
