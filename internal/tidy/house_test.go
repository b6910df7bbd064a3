package tidy

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// rules are those that look at the Go files alone.
var rules = []Rule{
	{"arrows", arrows},
	{"pure", pure},
	{"clock", clocks},
	{"length", length},
	{"size", size},
	{"doc", docs},
	{"wait", waits},
	{"words", words},
	{"left-over", leftOvers},
	{"links", links},
}

var house = sync.OnceValues(func() (*Tree, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	return Load(root)
})

func load(t *testing.T) *Tree {
	t.Helper()
	tree, err := house()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestHouse(t *testing.T) {
	tree := load(t)
	for _, rule := range rules {
		t.Run(rule.Name, func(t *testing.T) {
			for _, f := range rule.Find(tree) {
				t.Error(f)
			}
		})
	}
}

func TestModules(t *testing.T) {
	tree := load(t)
	goMods := map[string]string{}
	for _, name := range tree.Paths {
		if path.Base(name) == "go.mod" {
			goMods[name] = read(t, tree, name)
		}
	}
	if len(goMods) < 2 {
		t.Fatalf("found only %d go.mod files", len(goMods))
	}
	for _, f := range modules(goMods, read(t, tree, "go.work")) {
		t.Error(f)
	}
}

func read(t *testing.T, tree *Tree, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree.Root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// golden compares got with a file, or rewrites the file under -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if missing, added := lineDiff(string(want), got); len(missing)+len(added) > 0 {
		t.Errorf("%s is not what is recorded (make golden rewrites it):\nrecorded and gone: %q\nnew: %q",
			filepath.Base(file), missing, added)
	} else if got != string(want) {
		t.Errorf("%s: the recorded lines stand in another order (make golden rewrites it)", filepath.Base(file))
	}
}
