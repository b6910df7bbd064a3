package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/sim/planted"
)

// files are a module with a function and its tests.
var files = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.26\n",
	"m/m.go": "package m\n\nfunc Two() int {\n\treturn 2\n}\n\nfunc Three() int {\n\treturn 3\n}\n",
	"m/m_test.go": `package m

import (
	"testing"
	"time"
)

func TestTwo(t *testing.T) {
	if n := Two(); n != 2 {
		t.Errorf("I1: two is %d", n)
	}
}

func TestFails(t *testing.T) { t.Error("it fails always") }

func TestEnds(t *testing.T) {
	if Two() != 2 {
		time.Sleep(time.Hour)
	}
}
`,
	"n/n.go": "package n\n",
}

// Only a test that passes without the bug and fails with it, in what compiles and
// in time, has caught the bug.
func TestHunt(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles")
	}
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const broken = "-\treturn 2\n+\treturn 4\n"
	h := newHunter(root, t.TempDir())
	h.testMax = time.Second
	for i, x := range []struct {
		found, change string
		want          string // "": it is caught
	}{
		{"test ./m TestTwo", broken, ""},
		{"test ./m TestTwo I1", broken, ""},
		{"test ./m TestTwo I2", broken, "does not name I2"},
		{"test ./m TestTwo", "-\treturn 3\n+\treturn 4\n", "the test passes"},
		{"test ./m TestTwo", "-\treturn 2\n+\treturn two\n", "does not compile"},
		{"test ./m TestFails", broken, "without the bug"},
		{"test ./m TestEnds", broken, "does not end"},
		{"test ./m TestThree", broken, "no test has this name"},
		{"test ./n TestTwo", broken, "has no tests"},
		{"test ./m TestTwo", "-\treturn 5\n+\treturn 4\n", "0 times"},
	} {
		bugs, err := planted.Parse("x", "bug: b\nwhy: w\nfound: "+x.found+"\nfile: m/m.go\n"+x.change)
		if err != nil {
			t.Fatal(err)
		}
		v := h.hunt(context.Background(), i, &bugs[0])
		switch {
		case x.want == "" && v.err != nil:
			t.Errorf("%s: %v", x.found, v.err)
		case x.want != "" && (v.err == nil || !strings.Contains(v.err.Error(), x.want)):
			t.Errorf("%s: %v, want %q", x.found, v.err, x.want)
		}
	}
}
