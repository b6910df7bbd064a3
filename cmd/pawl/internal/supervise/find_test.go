//go:build unix

package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	file("a/tool", 0o600)
	file("b/tool", 0o700)
	file("a/plain", 0o600)
	file("here", 0o700)
	if err := os.Mkdir(filepath.Join(dir, "a/folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	path := "PATH=" + dir + "/none:" + dir + "/a:" + dir + "/b"
	for _, test := range []struct {
		command string
		env     []string
		want    string // path, or the code
	}{
		{"tool", []string{path}, dir + "/b/tool"},
		{"tool", []string{"PATH=/none", path}, dir + "/b/tool"},
		{"tool", []string{path, "PATH=/none"}, "127"},
		{"tool", nil, "127"},
		{"plain", []string{path}, "126"},
		{"folder", []string{path}, "127"},
		{"here", []string{path}, "127"},
		{"here", []string{"PATH=:/none"}, "./here"},
		{"here", []string{"PATH=/none:"}, "./here"},
		{"./here", nil, "./here"},
		{"a/tool", []string{path}, "126"},
		{"a/folder", nil, "126"},
		{"here/below", nil, "127"},
		{"absent/x", nil, "127"},
		{"", []string{path}, "127"},
	} {
		got, err := Find(test.command, test.env)
		var start *StartError
		if errors.As(err, &start) {
			got = map[int]string{126: "126", 127: "127"}[start.Outcome().Code]
		}
		if got != test.want {
			t.Errorf("find %q with %q: %s, %v; want %s", test.command, test.env, got, err, test.want)
		}
	}
}

func TestOursWinOverInheritedSettings(t *testing.T) {
	got := Environ([]string{"PAWL_NAME=outer", "A=1", "odd", "PAWL_NAME=outer2", "B=x=y"}, "PAWL_NAME=inner", "PAWL_CELL=c")
	if want := []string{"A=1", "odd", "B=x=y", "PAWL_NAME=inner", "PAWL_CELL=c"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestStatusLine(t *testing.T) {
	for _, test := range []struct {
		o    Outcome
		want string
	}{
		{Failed(CodeNotAcquired, ReasonNotAcquired), `{"code":75,"from":"pawl","reason":"not_acquired","child":null}`},
		{Interrupted(syscall.SIGTERM), `{"code":143,"from":"pawl","reason":"interrupted","child":null}`},
		{ended(3 << 8), `{"code":3,"from":"child","reason":"exited","child":{"code":3,"signal":""}}`},
		{ended(15), `{"code":143,"from":"child","reason":"signaled","child":{"code":null,"signal":"TERM"}}`},
		{ended(0).overruled(CodeLost, ReasonLost), `{"code":70,"from":"pawl","reason":"lease_lost","child":{"code":0,"signal":""}}`},
	} {
		var b strings.Builder
		if _, err := test.o.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if b.String() != test.want+"\n" {
			t.Errorf("status line %s, want %s", b.String(), test.want)
		}
	}
}
